// Groups of ranks with a GPU each, over NCCL. A build without CUDA has nccl_stub.cpp instead of
// nccl_torch.cpp.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "tessera/base/process/key_store.hpp"
#include "tessera/collective/group.hpp"

namespace tessera::collective {

struct NcclOptions {
  int local_rank = 0;                        // the rank's GPU on its machine
  std::string prefix = "job/0";              // of all keys: job and generation
  std::chrono::milliseconds timeout{60000};  // of one operation, and of connecting
};

// Can this build talk NCCL? Says nothing about the machine: see tensor::num_devices.
bool has_nccl();

// This rank on GPU `local_rank`, which becomes the calling thread's device. The store must outlive the
// communicator and its groups. Throws UserError where the build has no NCCL or the machine no such GPU.
//
// On a GPU an operation of a Group returns when it has been issued: it is done in the order of the caller's
// stream, so whatever that stream is given next may use its result.
std::unique_ptr<Communicator> nccl_communicator(KeyStore& store, int rank, int size,
                                                NcclOptions options = {});

}  // namespace tessera::collective
