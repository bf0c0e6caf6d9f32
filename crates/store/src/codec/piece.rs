//! Parts of the object model by themselves, for records that others keep: an agent's disk holds the spec of a task and the status of
//! its programs in the same bytes as the log.

use model::{ProgramStatus, TaskSpec};
use prost::Message as _;

use super::CodecError;
use super::fields::{Texts, Wire};

/// The spec of a task as bytes.
pub fn encode_task_spec(spec: &TaskSpec) -> Vec<u8> {
    spec.to_message().encode_to_vec()
}

/// Reads what [`encode_task_spec`] wrote.
///
/// # Errors
/// What is wrong with the bytes.
pub fn decode_task_spec(bytes: &[u8]) -> Result<TaskSpec, CodecError> {
    TaskSpec::read(bytes, &mut Texts::default())
}

/// The status of a program as bytes.
pub fn encode_program_status(status: &ProgramStatus) -> Vec<u8> {
    status.to_message().encode_to_vec()
}

/// Reads what [`encode_program_status`] wrote.
///
/// # Errors
/// What is wrong with the bytes.
pub fn decode_program_status(bytes: &[u8]) -> Result<ProgramStatus, CodecError> {
    ProgramStatus::read(bytes, &mut Texts::default())
}
