//! HIP's own headers judge the prototypes: a C file, made from the same tables, assigns each function to a pointer of our type, and asserts
//! sizes, numbers and layouts.

use super::prototypes;
use super::types::c;
use std::fmt::Write;
use std::fs;
use std::process::Command;

/// The C file. Where a header has the properties of HIP 5 alone, they have the name that later versions give them.
fn text() -> String {
    let mut t = String::from(
        "#define __HIP_PLATFORM_AMD__ 1\n#include <stddef.h>\n#include <hip/hip_runtime_api.h>\n#ifdef hipGetDeviceProperties\n\
         #define R0600 1\n#undef hipGetDeviceProperties\n#include <hip/hip_deprecated.h>\n\
         hipError_t hipGetDeviceProperties(hipDeviceProp_tR0000 *, int);\n#else\n#define R0600 0\n\
         #define hipDeviceProp_tR0000 hipDeviceProp_t\n#endif\n",
    );
    for (name, bytes) in c::sizes() {
        let _ = writeln!(t, "_Static_assert(sizeof({name}) == {bytes}, \"size of {name}\");");
    }
    for (expression, number) in c::numbers() {
        let _ = writeln!(t, "_Static_assert({expression} == {number}, \"{expression}\");");
    }
    for (properties, at) in c::layouts() {
        let _ = writeln!(
            t,
            "#if {0}\n_Static_assert(offsetof({properties}, gcnArchName) == {at}, \"{properties}\");\n\
             _Static_assert(sizeof({properties}) <= {1} && _Alignof({properties}) <= 8, \"room for {properties}\");\n#endif",
            condition(properties),
            c::PROPERTIES_ROOM
        );
    }
    for p in prototypes::all() {
        let name = p.name;
        let _ = writeln!(t, "#if {}\n{} (*check_{name})({}) = {name};\n#endif", condition(name), p.result, p.params.join(", "));
    }
    t
}

/// What must hold for a header to have the name.
fn condition(name: &str) -> &'static str {
    if name.ends_with("R0600") { "R0600" } else { "1" }
}

#[test]
fn headers_of_hip_agree_with_the_prototypes() {
    let (Some(headers), Some(compiler)) = (tilelift_oracle::hip_headers(), tilelift_oracle::c_compiler()) else {
        assert!(
            !tilelift_oracle::required(),
            "TILELIFT_REQUIRE_ORACLES is set, and there are no HIP headers (set TILELIFT_HIP_INCLUDE) or no C compiler"
        );
        println!("skipped: no HIP headers or no C compiler");
        return;
    };
    let compile = |text: &str, name: &str| {
        let source = std::env::temp_dir().join(format!("tilelift-hip-{}-{name}.c", std::process::id()));
        fs::write(&source, text).unwrap_or_else(|e| panic!("{}: {e}", source.display()));
        let mut command = Command::new(compiler);
        command.args(["-std=c11", "-fsyntax-only", "-Werror=incompatible-pointer-types", "-Werror=int-conversion", "-I"]).arg(headers);
        let said = command.arg(&source).output().unwrap_or_else(|e| panic!("{}: {e}", compiler.display()));
        let _ = fs::remove_file(&source);
        if said.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&said.stderr).into_owned()) }
    };
    let text = text();
    assert_eq!(compile(&text, "right"), Ok(()));
    // What judges must be able to refuse: another parameter, another number, another place.
    let spoilt = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    };
    assert!(compile(&spoilt("(*check_hipMalloc)(void * *, size_t)", "(*check_hipMalloc)(void * *, int)"), "parameter").is_err());
    assert!(compile(&spoilt("hipDeviceAttributeWarpSize == 87", "hipDeviceAttributeWarpSize == 88"), "number").is_err());
    assert!(compile(&spoilt("gcnArchName) == ", "gcnArchName) == 4 + "), "place").is_err());
}

#[test]
fn each_function_stands_in_the_table_once() {
    let mut names: Vec<&str> = prototypes::all().iter().map(|p| p.name).collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
    assert_eq!(prototypes::all().iter().filter(|p| !p.required).count(), 2, "the two versions of the properties");
}
