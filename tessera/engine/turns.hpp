// When a server may go on with one of its workers: see Note [Servers] in program/passes/servers.hpp.
#pragma once

#include <cstdint>
#include <optional>

#include "tessera/program/ir/op_kind.hpp"

namespace tessera::engine {

class Turns {
 public:
  // Of the optimizer, when it is known.
  struct Update {
    double learning_rate = 0;
    std::int64_t count = 1;
  };
  virtual ~Turns() = default;
  // Returns when the ops of the service may run; they use the update, if one is told.
  virtual std::optional<Update> wait(program::Service service) = 0;
};

}  // namespace tessera::engine
