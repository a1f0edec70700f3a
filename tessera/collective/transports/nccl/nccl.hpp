// Groups of ranks with a GPU each, over NCCL. A build without CUDA has nccl_stub.cpp instead of
// nccl_torch.cpp.
//
// On a GPU an operation of a Group returns when it has been issued: it is done in the order of the caller's
// stream, so whatever that stream is given next may use its result.
#pragma once

#include "tessera/collective/transport.hpp"

namespace tessera::collective {

// Its communicator is this rank on its GPU (gpu_of_rank.hpp), which becomes the calling thread's device.
// Throws UserError if the build has no NCCL or the machine no such GPU.
Transport nccl_transport();

}  // namespace tessera::collective
