//! Matrix products by cuBLASLt, the yardstick of benches: found at run time, never linked.
//!
//! ```text
//! BlasLt::open(paths) ─► product(&Product) ─► LtProduct (descriptors, algorithm, workspace) ─ launch(stream, a, b, c)
//!
//!   the library thinks in columns, we in rows: the same bytes are its transposes, so it is asked for
//!   Cᵀ[N, M] = op(B)ᵀ[N, K] · op(A)ᵀ[K, M]          its first operand is our B, its second our A
//! ```
//!
//! Prototypes and numbers are those of `cublasLt.h`, `cublas_api.h` and `library_types.h`, unchanged from CUDA 11 to 13.

use libloading::Library;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use tilelift::runtime::cuda::{CudaBuffer, CudaDevice, CudaError, CudaStream};
use tilelift_ir::Scalar;

/// `cublasStatus_t`.
type Status = c_int;
/// Any of the library's opaque pointers.
type Raw = *mut c_void;

const SUCCESS: Status = 0;
/// `CUBLASLT_MATMUL_DESC_TRANSA` and `…_TRANSB`, each a `cublasOperation_t` in 32 bits.
const DESC_TRANS: [c_int; 2] = [3, 4];
/// `CUBLAS_OP_N` and `CUBLAS_OP_T`.
const OP: [i32; 2] = [0, 1];
/// `CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT`, 32 bits, and `…_STRIDED_BATCH_OFFSET`, 64 bits.
const LAYOUT_BATCH: [c_int; 2] = [5, 6];
/// `CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES`, 64 bits.
const PREF_WORKSPACE: c_int = 1;
/// `CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK`, 32 bits.
const PREF_REDUCTION: c_int = 3;
/// `CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE`: parts of a sum meet in f32, as ours do.
const REDUCE_IN_F32: u32 = 2;
/// `CUBLAS_COMPUTE_32F` and `CUBLAS_COMPUTE_32F_FAST_TF32`.
const COMPUTE_F32: c_int = 68;
const COMPUTE_TF32: c_int = 77;
const COMPUTE_I32: c_int = 72;
/// `CUDA_R_32F` and `CUDA_R_32I`: the type of alpha and beta.
const SCALE_F32: c_int = 0;
const SCALE_I32: c_int = 10;
/// The workspace that NVIDIA recommends for Hopper (cuBLAS documentation, "cublasSetWorkspace").
const WORKSPACE: usize = 32 << 20;

/// `cublasLtMatmulAlgo_t`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Algo {
    data: [u64; 8],
}

/// `cublasLtMatmulHeuristicResult_t`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Heuristic {
    algo: Algo,
    workspace: usize,
    state: Status,
    waves: f32,
    reserved: [c_int; 4],
}

macro_rules! api {
    ($($field:ident = $name:literal fn($($arg:ty),*) -> $result:ty;)*) => {
        /// The library's functions.
        struct Api {
            $($field: unsafe extern "C" fn($($arg),*) -> $result,)*
        }
        impl Api {
            /// Looks up every function; the error is the name of one that is missing.
            fn load(library: &Library) -> Result<Api, &'static str> {
                Ok(Api {
                    // SAFETY: the type is the function's, by the library's header; `BlasLt` keeps the library loaded.
                    $($field: *unsafe { library.get($name.as_bytes()) }.map_err(|_| $name)?,)*
                })
            }
        }
    };
}

api! {
    create = "cublasLtCreate" fn(*mut Raw) -> Status;
    destroy = "cublasLtDestroy" fn(Raw) -> Status;
    version = "cublasLtGetVersion" fn() -> usize;
    status_name = "cublasLtGetStatusName" fn(Status) -> *const c_char;
    status_text = "cublasLtGetStatusString" fn(Status) -> *const c_char;
    desc_create = "cublasLtMatmulDescCreate" fn(*mut Raw, c_int, c_int) -> Status;
    desc_destroy = "cublasLtMatmulDescDestroy" fn(Raw) -> Status;
    desc_set = "cublasLtMatmulDescSetAttribute" fn(Raw, c_int, *const c_void, usize) -> Status;
    layout_create = "cublasLtMatrixLayoutCreate" fn(*mut Raw, c_int, u64, u64, i64) -> Status;
    layout_set = "cublasLtMatrixLayoutSetAttribute" fn(Raw, c_int, *const c_void, usize) -> Status;
    layout_destroy = "cublasLtMatrixLayoutDestroy" fn(Raw) -> Status;
    pref_create = "cublasLtMatmulPreferenceCreate" fn(*mut Raw) -> Status;
    pref_destroy = "cublasLtMatmulPreferenceDestroy" fn(Raw) -> Status;
    pref_set = "cublasLtMatmulPreferenceSetAttribute" fn(Raw, c_int, *const c_void, usize) -> Status;
    heuristic = "cublasLtMatmulAlgoGetHeuristic" fn(Raw, Raw, Raw, Raw, Raw, Raw, Raw, c_int, *mut Heuristic, *mut c_int) -> Status;
    matmul = "cublasLtMatmul" fn(
        Raw, Raw, *const c_void, *const c_void, Raw, *const c_void, Raw, *const c_void, *const c_void, Raw, *mut c_void, Raw,
        *const Algo, *mut c_void, usize, Raw
    ) -> Status;
}

/// Why cuBLASLt gives no product.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LtError {
    /// No library was found.
    NotFound {
        /// How many names and paths were tried.
        tried: usize,
    },
    /// A library lacks a function.
    MissingFunction {
        /// The library.
        library: PathBuf,
        /// The function.
        name: &'static str,
    },
    /// The library takes no such element types.
    Types {
        /// Element type of A and B.
        elem: Scalar,
        /// Element type of C.
        out: Scalar,
    },
    /// The library knows no algorithm for the product.
    NoAlgorithm,
    /// A call failed.
    Cuda(CudaError),
}

impl fmt::Display for LtError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LtError::NotFound { tried } => write!(
                f,
                "libcublasLt was not found under {tried} names; put its folder into LD_LIBRARY_PATH, or its path into TILELIFT_CUBLASLT"
            ),
            LtError::MissingFunction { library, name } => write!(f, "{} has no function {name}; use cuBLAS 11 or newer", library.display()),
            LtError::Types { elem, out } => write!(f, "cuBLASLt is not asked for products of {elem} with a result in {out}"),
            LtError::NoAlgorithm => f.write_str("cuBLASLt has no algorithm for this product"),
            LtError::Cuda(e) => e.fmt(f),
        }
    }
}

impl std::error::Error for LtError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            LtError::Cuda(e) => Some(e),
            LtError::NotFound { .. } | LtError::MissingFunction { .. } | LtError::Types { .. } | LtError::NoAlgorithm => None,
        }
    }
}

impl From<CudaError> for LtError {
    fn from(e: CudaError) -> LtError {
        LtError::Cuda(e)
    }
}

/// A product `C[M, N] = op(A) · op(B)` of dense row-major matrices, summed in f32.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Product {
    /// How many, one behind the other in all three tensors.
    pub batch: u32,
    /// Rows of C, columns of C, depth.
    pub shape: [u32; 3],
    /// A is stored `KxM` instead of `MxK`.
    pub trans_a: bool,
    /// B is stored `NxK` instead of `KxN`.
    pub trans_b: bool,
    /// Element type of A and B: `f16`, `bf16`, or `f32`, whose products are taken in tf32.
    pub elem: Scalar,
    /// Element type of C.
    pub out: Scalar,
}

/// A matrix as the library sees it: stored by columns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct ByColumns {
    rows: u32,
    cols: u32,
    /// Elements from one column to the next.
    step: u32,
    transposed: bool,
}

impl ByColumns {
    /// A row-major matrix is its own transpose by columns.
    fn of_row_major(rows: u32, cols: u32, transposed: bool) -> ByColumns {
        ByColumns { rows: cols, cols: rows, step: cols, transposed }
    }
}

impl Product {
    /// The library's first operand (our B), second operand (our A) and result.
    fn by_columns(&self) -> [ByColumns; 3] {
        let [m, n, k] = self.shape;
        let stored = |rows, cols, transposed: bool| {
            let (r, c) = if transposed { (cols, rows) } else { (rows, cols) };
            ByColumns::of_row_major(r, c, transposed)
        };
        [stored(k, n, self.trans_b), stored(m, k, self.trans_a), stored(m, n, false)]
    }

    /// `cublasComputeType_t` and the `cudaDataType_t` of the operands and of the result.
    fn types(&self) -> Result<(c_int, c_int, c_int), LtError> {
        let number = |t: Scalar| match t {
            Scalar::F32 => Some(0),
            Scalar::F16 => Some(2),
            Scalar::BF16 => Some(14),
            Scalar::I8 => Some(3),
            Scalar::I32 => Some(10),
            Scalar::F8E4M3 => Some(28),
            Scalar::F8E5M2 => Some(29),
            // Products of other types are not compared with the library.
            Scalar::I1
            | Scalar::I16
            | Scalar::I64
            | Scalar::F64
            | Scalar::F8E4M3Fnuz
            | Scalar::F8E5M2Fnuz
            | Scalar::F8E8M0
            | Scalar::F4E2M1
            | Scalar::I4 => None,
        };
        let compute = match self.elem {
            Scalar::F32 => COMPUTE_TF32,
            Scalar::I8 => COMPUTE_I32,
            _ => COMPUTE_F32,
        };
        let suits = match self.elem {
            Scalar::I8 => self.out == Scalar::I32,
            Scalar::F8E4M3 | Scalar::F8E5M2 => matches!(self.out, Scalar::BF16 | Scalar::F16 | Scalar::F32),
            elem => self.out == elem || self.out == Scalar::F32,
        };
        match (number(self.elem), number(self.out)) {
            (Some(elem), Some(out)) if suits => Ok((compute, elem, out)),
            _ => Err(LtError::Types { elem: self.elem, out: self.out }),
        }
    }
}

/// The library, ready for products in a device's context.
pub struct BlasLt {
    device: CudaDevice,
    api: Api,
    handle: Raw,
    path: PathBuf,
    /// Never unloaded: it has registered its kernels with the driver.
    _library: ManuallyDrop<Library>,
}

impl BlasLt {
    /// Opens the first library of `candidates` (names or paths) that loads.
    ///
    /// # Errors
    /// None loads, or the first that does lacks a function or does not start.
    pub fn open(device: &CudaDevice, candidates: &[PathBuf]) -> Result<Rc<BlasLt>, LtError> {
        let (path, library) = find(candidates)?;
        let api = Api::load(&library).map_err(|name| LtError::MissingFunction { library: path.clone(), name })?;
        let mut lt = BlasLt { device: device.clone(), api, handle: std::ptr::null_mut(), path, _library: ManuallyDrop::new(library) };
        let mut handle = std::ptr::null_mut();
        // SAFETY: the out pointer is valid, and the library works in the context that is current.
        lt.call("cublasLtCreate", || unsafe { (lt.api.create)(&mut handle) })?;
        lt.handle = handle;
        Ok(Rc::new(lt))
    }

    /// Where the library was found.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The library's version, as it counts: `10000 * major + 100 * minor + patch`.
    pub fn version(&self) -> usize {
        // SAFETY: the function takes nothing and has no preconditions.
        unsafe { (self.api.version)() }
    }

    /// Runs a call with the context current.
    fn call(&self, name: &'static str, f: impl FnOnce() -> Status) -> Result<(), CudaError> {
        self.device.with_context(|| {
            let status = f();
            if status == SUCCESS { Ok(()) } else { Err(self.error(name, status)) }
        })
    }

    fn error(&self, call: &'static str, status: Status) -> CudaError {
        // SAFETY: both functions take any number and return a static string, or null.
        let read = |f: unsafe extern "C" fn(Status) -> *const c_char| unsafe {
            let p = f(status);
            if p.is_null() { None } else { Some(CStr::from_ptr(p).to_string_lossy().into_owned()) }
        };
        CudaError::Driver {
            call,
            name: read(self.api.status_name).unwrap_or_else(|| format!("status {status}")),
            text: read(self.api.status_text).unwrap_or_else(|| "no description".into()),
        }
    }

    /// Prepares a product: the first algorithm that the library's heuristic names, with 32 MiB of workspace.
    ///
    /// # Errors
    /// Element types that are not asked for, no algorithm, or a failed call.
    pub fn product(self: &Rc<BlasLt>, device: &CudaDevice, product: &Product) -> Result<LtProduct, LtError> {
        let (compute, elem, out) = product.types()?;
        let operands = product.by_columns();
        let workspace = device.alloc(WORKSPACE)?;
        let mut made = LtProduct {
            lt: self.clone(),
            desc: std::ptr::null_mut(),
            layouts: [std::ptr::null_mut(); 3],
            algo: Algo::default(),
            workspace,
            product: *product,
        };
        let api = &self.api;
        // SAFETY: the out pointer is valid. Here and below, `LtProduct::drop` destroys what was made.
        let scale = if compute == COMPUTE_I32 { SCALE_I32 } else { SCALE_F32 };
        // SAFETY: as above.
        self.call("cublasLtMatmulDescCreate", || unsafe { (api.desc_create)(&mut made.desc, compute, scale) })?;
        for (attribute, operand) in DESC_TRANS.into_iter().zip(&operands) {
            let op = OP[usize::from(operand.transposed)];
            let value = std::ptr::from_ref(&op).cast();
            // SAFETY: the descriptor was made above; the value is a 32-bit number, as the attribute is.
            self.call("cublasLtMatmulDescSetAttribute", || unsafe { (api.desc_set)(made.desc, attribute, value, size_of::<i32>()) })?;
        }
        for ((layout, operand), ty) in made.layouts.iter_mut().zip(&operands).zip([elem, elem, out]) {
            let (rows, cols, step) = (u64::from(operand.rows), u64::from(operand.cols), i64::from(operand.step));
            // SAFETY: the out pointer is valid.
            self.call("cublasLtMatrixLayoutCreate", || unsafe { (api.layout_create)(layout, ty, rows, cols, step) })?;
            let (count, offset) = (product.batch as i32, step * cols as i64);
            let values: [(*const c_void, usize); 2] =
                [(std::ptr::from_ref(&count).cast(), size_of::<i32>()), (std::ptr::from_ref(&offset).cast(), size_of::<i64>())];
            for (attribute, (value, size)) in LAYOUT_BATCH.into_iter().zip(values) {
                // SAFETY: the layout was made above; the values are of the attributes' sizes and outlive the call.
                self.call("cublasLtMatrixLayoutSetAttribute", || unsafe { (api.layout_set)(*layout, attribute, value, size) })?;
            }
        }
        made.algo = self.choose(&made)?;
        Ok(made)
    }

    fn choose(&self, p: &LtProduct) -> Result<Algo, LtError> {
        let api = &self.api;
        let mut preference = Preference { lt: self, raw: std::ptr::null_mut() };
        // SAFETY: the out pointer is valid; `Preference::drop` destroys what was made.
        self.call("cublasLtMatmulPreferenceCreate", || unsafe { (api.pref_create)(&mut preference.raw) })?;
        let workspace = WORKSPACE as u64;
        let values: [(c_int, *const c_void, usize); 2] = [
            (PREF_WORKSPACE, std::ptr::from_ref(&workspace).cast(), size_of::<u64>()),
            (PREF_REDUCTION, std::ptr::from_ref(&REDUCE_IN_F32).cast(), size_of::<u32>()),
        ];
        for (attribute, value, size) in values {
            // SAFETY: the preference was made above; the values are of the attributes' sizes and outlive the call.
            self.call("cublasLtMatmulPreferenceSetAttribute", || unsafe { (api.pref_set)(preference.raw, attribute, value, size) })?;
        }
        let (mut found, mut count) = (Heuristic::default(), 0);
        let [first, second, result] = p.layouts;
        // SAFETY: every descriptor was made by the library; there is room for the one result that is asked for.
        let ask =
            || unsafe { (api.heuristic)(self.handle, p.desc, first, second, result, result, preference.raw, 1, &mut found, &mut count) };
        self.call("cublasLtMatmulAlgoGetHeuristic", ask)?;
        if count < 1 || found.state != SUCCESS || found.workspace > WORKSPACE {
            return Err(LtError::NoAlgorithm);
        }
        Ok(found.algo)
    }
}

impl Drop for BlasLt {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: we made the handle and destroy it once. Nothing can be done about an error here.
            let _ = self.call("cublasLtDestroy", || unsafe { (self.api.destroy)(self.handle) });
        }
    }
}

fn find(candidates: &[PathBuf]) -> Result<(PathBuf, Library), LtError> {
    for path in candidates {
        // SAFETY: loading cuBLASLt runs its initialisers, which are meant to run in any process.
        if let Ok(library) = unsafe { Library::new(path) } {
            return Ok((path.clone(), library));
        }
    }
    Err(LtError::NotFound { tried: candidates.len() })
}

/// Destroys a preference at the end of its scope.
struct Preference<'l> {
    lt: &'l BlasLt,
    raw: Raw,
}

impl Drop for Preference<'_> {
    fn drop(&mut self) {
        if !self.raw.is_null() {
            // SAFETY: we made the preference and destroy it once.
            let _ = self.lt.call("cublasLtMatmulPreferenceDestroy", || unsafe { (self.lt.api.pref_destroy)(self.raw) });
        }
    }
}

/// A product that is ready to launch any number of times, on one stream at a time.
pub struct LtProduct {
    lt: Rc<BlasLt>,
    desc: Raw,
    /// The library's first operand, second operand, result.
    layouts: [Raw; 3],
    algo: Algo,
    workspace: CudaBuffer,
    product: Product,
}

impl LtProduct {
    /// Bytes of A, B and C.
    pub(super) fn bytes(&self) -> [usize; 3] {
        let [m, n, k] = self.product.shape.map(|e| e as usize);
        let (elem, out) = (self.product.elem.bytes() as usize, self.product.out.bytes() as usize);
        [m * k * elem, k * n * elem, m * n * out].map(|one| one * self.product.batch as usize)
    }

    /// Puts the product on a stream.
    ///
    /// # Errors
    /// A failed call.
    ///
    /// # Safety
    /// The addresses must be of device memory of [`LtProduct::bytes`] bytes, aligned to 256 bytes, that lives until the launch has
    /// finished; nothing else may use C, or launch this product on another stream, meanwhile.
    pub(crate) unsafe fn launch(&self, stream: &CudaStream, a: u64, b: u64, c: u64) -> Result<(), CudaError> {
        let pointer = |address: u64| std::ptr::without_provenance_mut::<c_void>(address as usize);
        // Four bytes, as the type of the sums has it.
        let one: u32 = if self.product.elem == Scalar::I8 { 1 } else { 1f32.to_bits() };
        let zero = 0u32;
        let [first, second, result] = self.layouts;
        let c = pointer(c);
        // SAFETY: the descriptors were made for these operands; alpha and beta are on the host, of the descriptor's scale
        // type, and are read before the call returns; the workspace is as long as said; the caller vouches for the rest.
        let go = || unsafe {
            (self.lt.api.matmul)(
                self.lt.handle,
                self.desc,
                std::ptr::from_ref(&one).cast(),
                pointer(b),
                first,
                pointer(a),
                second,
                std::ptr::from_ref(&zero).cast(),
                c,
                result,
                c,
                result,
                &self.algo,
                pointer(self.workspace.address()),
                WORKSPACE,
                stream.handle(),
            )
        };
        self.lt.call("cublasLtMatmul", go)
    }
}

impl Drop for LtProduct {
    fn drop(&mut self) {
        let api = &self.lt.api;
        for layout in self.layouts.into_iter().filter(|l| !l.is_null()) {
            // SAFETY: we made the layout and destroy it once.
            let _ = self.lt.call("cublasLtMatrixLayoutDestroy", || unsafe { (api.layout_destroy)(layout) });
        }
        if !self.desc.is_null() {
            // SAFETY: we made the descriptor and destroy it once.
            let _ = self.lt.call("cublasLtMatmulDescDestroy", || unsafe { (api.desc_destroy)(self.desc) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the library computes, by its documentation: all matrices by columns, `D = op(A) op(B)`.
    fn by_the_book(ops: [ByColumns; 3], first: &[f64], second: &[f64]) -> Vec<f64> {
        let at = |m: &ByColumns, data: &[f64], r: usize, c: usize| {
            let (r, c) = if m.transposed { (c, r) } else { (r, c) };
            assert!(r < m.rows as usize && c < m.cols as usize);
            data[c * m.step as usize + r]
        };
        let [a, b, d] = ops;
        let depth = if a.transposed { a.rows } else { a.cols } as usize;
        assert_eq!(depth, if b.transposed { b.cols } else { b.rows } as usize);
        let mut out = vec![f64::NAN; (d.step * d.cols) as usize];
        for c in 0..d.cols as usize {
            for r in 0..d.rows as usize {
                out[c * d.step as usize + r] = (0..depth).map(|p| at(&a, first, r, p) * at(&b, second, p, c)).sum();
            }
        }
        out
    }

    #[test]
    fn swapped_operands_give_the_row_major_product_in_every_order() {
        let (m, n, k) = (3usize, 5usize, 4usize);
        let a: Vec<f64> = (0..m * k).map(|i| (i * i % 17) as f64 - 5.0).collect();
        let b: Vec<f64> = (0..k * n).map(|i| (i * 7 % 13) as f64 - 3.0).collect();
        for (trans_a, trans_b) in [(false, false), (false, true), (true, false), (true, true)] {
            let p = Product { batch: 1, shape: [3, 5, 4], trans_a, trans_b, elem: Scalar::BF16, out: Scalar::BF16 };
            let got = by_the_book(p.by_columns(), &b, &a);
            for i in 0..m {
                for j in 0..n {
                    let x = |p: usize| a[if trans_a { p * m + i } else { i * k + p }];
                    let y = |p: usize| b[if trans_b { j * k + p } else { p * n + j }];
                    let want: f64 = (0..k).map(|p| x(p) * y(p)).sum();
                    assert_eq!(got[i * n + j], want, "{trans_a} {trans_b} ({i}, {j})");
                }
            }
        }
    }

    #[test]
    fn structures_have_the_sizes_of_the_header() {
        assert_eq!(size_of::<Algo>(), 64);
        assert_eq!(size_of::<Heuristic>(), 96);
        assert_eq!(std::mem::offset_of!(Heuristic, state), 72);
    }

    #[test]
    fn types_are_the_headers_numbers_and_others_are_refused() {
        let of = |elem, out| Product { batch: 1, shape: [1, 1, 1], trans_a: false, trans_b: false, elem, out }.types();
        assert_eq!(of(Scalar::BF16, Scalar::BF16), Ok((68, 14, 14)));
        assert_eq!(of(Scalar::F16, Scalar::F32), Ok((68, 2, 0)));
        assert_eq!(of(Scalar::F32, Scalar::F32), Ok((77, 0, 0)));
        assert_eq!(of(Scalar::F8E4M3, Scalar::BF16), Ok((68, 28, 14)));
        assert_eq!(of(Scalar::I8, Scalar::I32), Ok((72, 3, 10)));
        for (elem, out) in [(Scalar::I8, Scalar::F32), (Scalar::BF16, Scalar::F16), (Scalar::F64, Scalar::F64)] {
            assert_eq!(of(elem, out), Err(LtError::Types { elem, out }));
        }
    }

    #[test]
    fn a_missing_library_says_what_to_do() {
        let error = find(&[PathBuf::from("/nowhere/libcublasLt.so.13")]).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(error.contains("1 names") && error.contains("TILELIFT_CUBLASLT"), "{error}");
    }
}
