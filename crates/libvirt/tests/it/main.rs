//! Integration tests: against a scripted server, against libvirtd's test driver, and against QEMU on two hosts.

mod hosts;
mod scripted;
mod test_driver;
