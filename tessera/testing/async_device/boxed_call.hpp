// Any operator on an asynchronous device: the CPU's kernel, given to a stream. Shapes of results are found at
// once by LibTorch's meta kernels, as the host finds a GPU's.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace tessera::async_device {

// Takes the arguments off the stack and leaves the results there.
void give_to_stream(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace tessera::async_device
