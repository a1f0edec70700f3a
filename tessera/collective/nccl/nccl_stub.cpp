#include "tessera/base/error.hpp"
#include "tessera/collective/nccl/nccl.hpp"

namespace tessera::collective {

bool has_nccl() { return false; }

std::unique_ptr<Communicator> nccl_communicator(KeyStore&, int, int, NcclOptions) {
  throw UserError(
      "this build has no NCCL. Use cluster.transport = \"sockets\" (or \"threads\"), or build with CUDA "
      "(docs/cuda.md).");
}

}  // namespace tessera::collective
