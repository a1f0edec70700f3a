// The part of tessera::dropout that only a build for GPUs has.
#pragma once

namespace torch {
class Library;
}

namespace tessera::parallel::kernels {

// Adds CUDA's kernel to the operator; nothing in a build for CPUs.
void add_cuda_dropout(torch::Library& library);

}  // namespace tessera::parallel::kernels
