//! Name lookups in the static program.
//!
//! glibc reads `/etc/nsswitch.conf` and loads the plugins named there, such as `resolve` or `mdns4_minimal`. In a static
//! program, that works only with exactly the glibc that the program was linked with, and a mismatch can crash it. The
//! static program therefore uses files and DNS, which are part of glibc itself. Other builds are not affected.

#[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
#[expect(unsafe_code, reason = "glibc has no other interface for this")]
pub fn use_builtin_sources() {
    use std::ffi::{CStr, c_char, c_int};

    unsafe extern "C" {
        /// Part of glibc's documented interface, `<nss.h>`.
        fn __nss_configure_lookup(database: *const c_char, sources: *const c_char) -> c_int;
    }
    const SOURCES: [(&CStr, &CStr); 3] = [(c"hosts", c"files dns"), (c"passwd", c"files"), (c"group", c"files")];
    for (database, sources) in SOURCES {
        // SAFETY: both are valid C strings that live forever, and no other thread runs yet.
        let _ = unsafe { __nss_configure_lookup(database.as_ptr(), sources.as_ptr()) };
    }
}

#[cfg(not(all(target_env = "gnu", target_feature = "crt-static")))]
pub fn use_builtin_sources() {}
