// What a mutant leaves out, as if the code on the device had forgotten it: by this is shown that the witness
// sees it.
#pragma once

#include <cstdint>
#include <string>

namespace tessera::async_device {

struct Omission {
  enum class Kind : std::uint8_t {
    nothing,
    record_stream,  // of memory that another stream reads
    event_wait,     // of a stream for another's event
    issue_wait,     // of a communicator's stream for its caller's
    work_wait,      // of the caller's stream for a communicator's
    kept_tensors    // by an operation of a communicator that is under way
  };
  Kind kind = Kind::nothing;
  std::string
      where;  // the letter of the op (program/ir/ops.def), or the name of the operation, that forgets it
};

}  // namespace tessera::async_device
