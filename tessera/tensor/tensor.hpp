// The one door to LibTorch: what most files of the run storey need, and no more. Tensors are used method
// style (x.matmul(w)); what is no method is declared here and defined in one heavy file.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tessera::tensor {

using at::Tensor;
using Shape = std::vector<std::int64_t>;

// Uninitialised and zero tensors. What meets tensors of the model is made on their device, e.g. x.device().
Tensor empty(at::IntArrayRef shape, at::ScalarType dtype, at::Device device = at::kCPU);
Tensor zeros(at::IntArrayRef shape, at::ScalarType dtype, at::Device device = at::kCPU);
// A CPU tensor over memory of the caller, who keeps it alive.
Tensor view_of(void* data, at::IntArrayRef shape, at::ScalarType dtype);
// These whole numbers as int64, on the CPU.
Tensor indices(std::span<const std::int64_t> values);
// One number in fp64, without dimensions.
Tensor number(double value, c10::Device device = c10::kCPU);

// What sums and statistics of values are kept in: fp64 stays, all else is fp32.
inline at::ScalarType wide(at::ScalarType dtype) { return dtype == at::kDouble ? at::kDouble : at::kFloat; }

Tensor concatenate(at::TensorList parts, std::int64_t dim);
// Same dtype, shape and bits, on whatever device.
bool bit_equal(const Tensor& a, const Tensor& b);

Tensor rms_norm(const Tensor& x, const Tensor& weight, double epsilon);
// Weight and bias may be wider than x. A CPU keeps the statistics in their dtype; kernels for CUDA want all
// in one dtype, so there they are rounded to that of x, and the statistics are in fp32 anyway.
Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon);
// The tanh approximation, as GPT-2 has it.
Tensor gelu(const Tensor& x);
// Attention over [batch, head, position, channel]; heads of q are a multiple of heads of k and v.
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, bool causal);
// The same of the keys that each query sees: true or false, of a shape that broadcasts to [batch, head,
// query, key].
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& sees);

// LibTorch's version, and the instruction set its kernels were chosen for on this machine.
std::string engine_version();
std::string kernel_level();

// Threads of this calling thread's kernels: one per rank.
void set_threads(int num_threads);

// The roots of one segment's autograd graph, differentiated once when the program says so. Holds gradient
// edges only, never the output tensors.
class Graph {
 public:
  Graph();
  explicit Graph(std::span<const Tensor> roots);
  Graph(Graph&&) noexcept;
  Graph& operator=(Graph&&) noexcept;
  ~Graph();
  // Gradients of sum(root * root_gradient) with respect to leaves, in their order; undefined where
  // unreachable. Runs on the calling thread and frees the graph.
  std::vector<Tensor> run(std::span<const Tensor> root_gradients, std::span<const Tensor> leaves);

 private:
  struct Edges;
  std::unique_ptr<Edges> edges_;
};

}  // namespace tessera::tensor
