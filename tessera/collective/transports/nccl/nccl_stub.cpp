#include "tessera/base/error.hpp"
#include "tessera/collective/transports/nccl/nccl.hpp"

namespace tessera::collective {

Transport nccl_transport() {
  return {
      .is_built = false,
      .connect = [](const Meeting&, const Seat&) -> std::unique_ptr<Communicator> {
        throw UserError(
            "this build has no NCCL. Use cluster.transport = \"sockets\" (or \"threads\"), or build "
            "with CUDA (docs/cuda.md).");
      },
      .try_out =
          [] {
            return Trial{Trial::Result::absent, "not in this build, which is for CPUs (docs/cuda.md)", ""};
          }};
}

}  // namespace tessera::collective
