// An error as a person is told of it: without stacks and source lines of LibTorch, with its exit code.
#pragma once

#include <exception>
#include <string>

namespace tessera::tensor {

struct Told {
  std::string text;
  int exit_code = 0;
};

// Bounded in length. Memory that could not be had is the user's to mend; what Tessera doesn't know is a bug.
Told told(const std::exception_ptr& error);

}  // namespace tessera::tensor
