//! Artifacts of several kinds: numbers alone, tensor maps, code objects; dense and strided views, extents that belong together, outputs in place.

use std::sync::{Arc, LazyLock};
use tilelift::{Artifact, Compiler, Settings};

/// Views with facts, one of which is strided, and scalars of two types.
const STRIDED: &str = "kernel @strided(%x: view<f32, [?, ?%4], [?%4, 1]>, %y: view<f32, [?, ?%4]>, %s: f32, %n: i32) {
    %p = program_id x
    %a = load %x[%p, 0] : tile<1x128xf32>
    %f = splat %s : tile<1x128xf32>
    %i = splat %n : tile<1x128xi32>
    %g = cast %i : tile<1x128xf32>
    %b = fma %a, %f, %g
    store %y[%p, 0], %b
}
";

/// Two views of one type, of which the second may be in the place of the first.
const PLACED: &str = "kernel @placed(%x: view<f16, [?]>, %y: view<f16, [?]>) {
    %p = program_id x
    %q = mul %p, 64
    %a = load %x[%q] : tile<64xf16>
    %b = add %a, %a
    store %y[%q], %b
}
";

/// A product, which a target with bulk copies makes with tensor maps, several positions an instance.
const PRODUCT: &str = "kernel @product(%a: view<f16, [?%64, ?%64]>, %b: view<f16, [?%64, ?%64]>, %c: view<f32, [?%64, ?%64]>) {
    %p = program_id x
    %r = mul %p, 128
    %z = splat 0.0 : tile<128x128xf32>
    %k = dim %a, 1
    %s = for %i in 0..%k step 64 carry %t = %z {
        %x = load %a[%r, %i] : tile<128x64xf16>
        %y = load %b[%i, 0] : tile<64x128xf16>
        %u = dot %x, %y, %t
        yield %u
    }
    store %c[%r, 0], %s
}
";

/// The artifacts, made once.
pub(super) fn subjects() -> &'static [Arc<Artifact>] {
    static MADE: LazyLock<Vec<Arc<Artifact>>> = LazyLock::new(|| {
        let list = [
            ("sm_80", STRIDED, Settings::new().same_extent(&[(0, 0), (1, 0)]).same_extent(&[(0, 1), (1, 1)])),
            ("gfx942", STRIDED, Settings::new()),
            ("sm_80", PLACED, Settings::new().in_place(1, 0)),
            ("sm_80", PLACED, Settings::new().same_extent(&[(0, 0), (1, 0)])),
            ("sm_90a", PRODUCT, Settings::new().same_extent(&[(0, 1), (1, 0)])),
            ("gfx942", PRODUCT, Settings::new()),
        ];
        let make = |(target, text, settings): (&str, &str, Settings)| {
            let compiler = Compiler::builder(target).settings(settings).build();
            compiler.and_then(|c| c.compile_text(text, None)).unwrap_or_else(|e| panic!("{target}: {e}\n{text}"))
        };
        list.into_iter().map(make).collect()
    });
    &MADE
}
