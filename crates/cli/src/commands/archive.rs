use crate::args::ArchiveArgs;
use crate::failure::Failure;
pub fn export(_args: ArchiveArgs) -> Result<(), Failure> {
    Err(Failure::Refused("Not there yet.".into()))
}
pub fn import(_args: ArchiveArgs) -> Result<(), Failure> {
    Err(Failure::Refused("Not there yet.".into()))
}
