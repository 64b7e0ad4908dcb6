//! The benchmark's driver for libmodsecurity 3, through its C interface (headers `modsecurity.h`,
//! `rules_set.h`, `transaction.h`, `intervention.h` of release 3.0).
//!
//! The library is opened at run time: `GLACIS_BENCH_LIBMODSECURITY` names its file.

use std::{
    cell::RefCell,
    error::Error,
    ffi::{CStr, CString, c_char, c_int, c_uchar, c_void},
    ptr,
    rc::Rc,
};

use glacis_bench_measure::{Engine, Outcome, Request, Response, run};
use libloading::Library;

const LIBRARY: &str = "GLACIS_BENCH_LIBMODSECURITY";

type Handle = *mut c_void;

/// `ModSecurityIntervention`.
#[repr(C)]
struct Intervention {
    status: c_int,
    pause: c_int,
    url: *mut c_char,
    log: *mut c_char,
    disruptive: c_int,
}

/// Declares the functions that are used, and a value that holds them.
macro_rules! functions {
    ($($name:ident($($argument:ty),*) $(-> $result:ty)?;)*) => {
        struct Functions {
            $($name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            /// Keeps the functions in memory.
            _library: Library,
        }

        impl Functions {
            /// # Safety
            /// The file must be libmodsecurity 3.0: the types above are what its headers say.
            unsafe fn open(path: &str) -> Result<Self, Box<dyn Error>> {
                let library = unsafe { Library::new(path)? };
                Ok(Self {
                    $($name: *unsafe { library.get(concat!(stringify!($name), "\0").as_bytes())? },)*
                    _library: library,
                })
            }
        }
    };
}

functions! {
    msc_init() -> Handle;
    msc_who_am_i(Handle) -> *const c_char;
    msc_set_log_cb(Handle, extern "C" fn(*mut c_void, *const c_void));
    msc_create_rules_set() -> Handle;
    msc_rules_add_file(Handle, *const c_char, *mut *const c_char) -> c_int;
    msc_new_transaction(Handle, Handle, *mut c_void) -> Handle;
    msc_transaction_cleanup(Handle);
    msc_process_connection(Handle, *const c_char, c_int, *const c_char, c_int) -> c_int;
    msc_process_uri(Handle, *const c_char, *const c_char, *const c_char) -> c_int;
    msc_add_n_request_header(Handle, *const c_uchar, usize, *const c_uchar, usize) -> c_int;
    msc_process_request_headers(Handle) -> c_int;
    msc_append_request_body(Handle, *const c_uchar, usize) -> c_int;
    msc_process_request_body(Handle) -> c_int;
    msc_add_n_response_header(Handle, *const c_uchar, usize, *const c_uchar, usize) -> c_int;
    msc_process_response_headers(Handle, c_int, *const c_char) -> c_int;
    msc_append_response_body(Handle, *const c_uchar, usize) -> c_int;
    msc_process_response_body(Handle) -> c_int;
    msc_process_logging(Handle) -> c_int;
    msc_intervention(Handle, *mut Intervention) -> c_int;
}

thread_local! {
    /// Messages of the rules that matched in the last transaction; the library names rules nowhere
    /// else.
    static MESSAGES: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

extern "C" fn on_message(_: *mut c_void, message: *const c_void) {
    // SAFETY: without a choice of properties the library passes a text that ends with a zero byte.
    let message = unsafe { CStr::from_ptr(message.cast()) };
    MESSAGES.with_borrow_mut(|messages| messages.extend_from_slice(message.to_bytes()));
}

struct ModSecurity {
    functions: Rc<Functions>,
    engine: Handle,
    rules: Handle,
}

struct Transaction {
    functions: Rc<Functions>,
    handle: Handle,
    refused: Option<u16>,
}

impl Drop for Transaction {
    fn drop(&mut self) {
        // SAFETY: the handle is a transaction that nothing uses from here on.
        unsafe { (self.functions.msc_transaction_cleanup)(self.handle) };
    }
}

impl Transaction {
    /// Asks, as hosts do after each phase, whether a rule refused.
    fn is_refused(&mut self) -> bool {
        let (url, log) = (ptr::null_mut(), ptr::null_mut());
        let mut intervention = Intervention { status: 200, pause: 0, url, log, disruptive: 0 };
        // SAFETY: both are alive; the texts are given to us, made by malloc or null.
        unsafe {
            (self.functions.msc_intervention)(self.handle, &raw mut intervention);
            libc::free(intervention.url.cast());
            libc::free(intervention.log.cast());
        }
        if intervention.disruptive != 0 {
            self.refused = u16::try_from(intervention.status).ok();
        }
        self.refused.is_some()
    }

    fn evaluate_request(&mut self, request: &Request) -> Result<(), Box<dyn Error>> {
        let functions = Rc::clone(&self.functions);
        let client = CString::new(request.client.ip.as_str())?;
        let server = CString::new(request.server.ip.as_str())?;
        let uri = CString::new(request.uri.as_str())?;
        let method = CString::new(request.method.as_str())?;
        // The library wants the version alone.
        let version = request.protocol.trim_start_matches("HTTP/");
        let version = CString::new(version)?;
        let (client_port, server_port) = (request.client.port.into(), request.server.port.into());
        // SAFETY: texts end with a zero byte, slices come with their lengths, and the library
        // copies what it is given.
        unsafe {
            (functions.msc_process_connection)(
                self.handle,
                client.as_ptr(),
                client_port,
                server.as_ptr(),
                server_port,
            );
            (functions.msc_process_uri)(
                self.handle,
                uri.as_ptr(),
                method.as_ptr(),
                version.as_ptr(),
            );
            for (name, value) in &request.headers {
                (functions.msc_add_n_request_header)(
                    self.handle,
                    name.as_ptr(),
                    name.len(),
                    value.as_ptr(),
                    value.len(),
                );
            }
            (functions.msc_process_request_headers)(self.handle);
            if self.is_refused() {
                return Ok(());
            }
            if !request.body.is_empty() {
                let body = &request.body;
                (functions.msc_append_request_body)(self.handle, body.as_ptr(), body.len());
                if self.is_refused() {
                    return Ok(());
                }
            }
            (functions.msc_process_request_body)(self.handle);
        }
        self.is_refused();
        Ok(())
    }

    fn evaluate_response(&mut self, response: &Response) -> Result<(), Box<dyn Error>> {
        let functions = Rc::clone(&self.functions);
        let protocol = CString::new(response.protocol.as_str())?;
        // SAFETY: as for the request.
        unsafe {
            for (name, value) in &response.headers {
                (functions.msc_add_n_response_header)(
                    self.handle,
                    name.as_ptr(),
                    name.len(),
                    value.as_ptr(),
                    value.len(),
                );
            }
            let status = response.status.into();
            (functions.msc_process_response_headers)(self.handle, status, protocol.as_ptr());
            if self.is_refused() {
                return Ok(());
            }
            let body = &response.body;
            (functions.msc_append_response_body)(self.handle, body.as_ptr(), body.len());
            (functions.msc_process_response_body)(self.handle);
        }
        self.is_refused();
        Ok(())
    }
}

impl Engine for ModSecurity {
    type Transaction = Transaction;

    fn load(rules: &str) -> Result<Self, Box<dyn Error>> {
        let path = std::env::var(LIBRARY).map_err(|_| format!("{LIBRARY} is not set"))?;
        // SAFETY: the caller names libmodsecurity 3.0.
        let functions = Rc::new(unsafe { Functions::open(&path)? });
        let file = CString::new(rules)?;
        let mut error = ptr::null();
        // SAFETY: handles are used as the headers say; the error is a text or null.
        unsafe {
            let engine = (functions.msc_init)();
            (functions.msc_set_log_cb)(engine, on_message);
            let rules = (functions.msc_create_rules_set)();
            if (functions.msc_rules_add_file)(rules, file.as_ptr(), &raw mut error) < 0 {
                let error =
                    if error.is_null() { c"no reason given" } else { CStr::from_ptr(error) };
                return Err(error.to_string_lossy().into());
            }
            Ok(Self { functions, engine, rules })
        }
    }

    fn version(&self) -> (String, String) {
        // SAFETY: the text is the library's own.
        let name = unsafe { CStr::from_ptr((self.functions.msc_who_am_i)(self.engine)) };
        let name = name.to_string_lossy();
        let version = name.split(['v', ' ']).find(|word| word.starts_with("3."));
        ("modsecurity".to_owned(), version.unwrap_or(&name).to_owned())
    }

    fn evaluate(&self, request: &Request) -> Result<Transaction, Box<dyn Error>> {
        MESSAGES.with_borrow_mut(Vec::clear);
        // SAFETY: engine and rules are alive.
        let handle = unsafe {
            (self.functions.msc_new_transaction)(self.engine, self.rules, ptr::null_mut())
        };
        let functions = Rc::clone(&self.functions);
        let mut transaction = Transaction { functions, handle, refused: None };
        transaction.evaluate_request(request)?;
        if let Some(response) = &request.response
            && transaction.refused.is_none()
        {
            transaction.evaluate_response(response)?;
        }
        // SAFETY: the transaction is alive.
        unsafe { (self.functions.msc_process_logging)(handle) };
        Ok(transaction)
    }

    fn outcome(&self, transaction: &Transaction) -> Outcome {
        let messages = MESSAGES.with_borrow(|text| String::from_utf8_lossy(text).into_owned());
        let ids = messages.split("[id \"").skip(1).filter_map(|rest| rest.split('"').next());
        Outcome {
            refused: transaction.refused,
            matched: ids.filter_map(|id| id.parse().ok()).collect(),
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    run::<ModSecurity>()
}
