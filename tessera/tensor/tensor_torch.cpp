#include "tessera/tensor/tensor.hpp"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/ops/cat_ops.h>
#include <ATen/ops/empty_ops.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/gelu_ops.h>
#include <ATen/ops/layer_norm_ops.h>
#include <ATen/ops/rms_norm_ops.h>
#include <ATen/ops/scaled_dot_product_attention_ops.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/version.h>

#include <algorithm>
#include <cstring>

#include "tessera/base/error.hpp"

namespace tessera::tensor {

Tensor empty(at::IntArrayRef shape, at::ScalarType dtype, at::Device device) {
  return at::_ops::empty_memory_format::call(c10::fromIntArrayRefSlow(shape), dtype, at::kStrided, device,
                                             false, std::nullopt);
}

Tensor zeros(at::IntArrayRef shape, at::ScalarType dtype, at::Device device) {
  return empty(shape, dtype, device).zero_();
}

Tensor number(double value, c10::Device device) { return empty({}, at::kDouble, device).fill_(value); }

Tensor view_of(void* data, at::IntArrayRef shape, at::ScalarType dtype) {
  return at::from_blob(data, shape, dtype);
}

Tensor indices(std::span<const std::int64_t> values) {
  Tensor out = empty({std::ssize(values)}, at::kLong);
  std::ranges::copy(values, out.mutable_data_ptr<std::int64_t>());
  return out;
}

Tensor concatenate(at::TensorList parts, std::int64_t dim) { return at::_ops::cat::call(parts, dim); }

bool bit_equal(const Tensor& a, const Tensor& b) {
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes()) return false;
  const Tensor x = a.cpu().contiguous(), y = b.cpu().contiguous();
  return std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

Tensor rms_norm(const Tensor& x, const Tensor& weight, double epsilon) {
  return at::_ops::rms_norm::call(x, c10::fromIntArrayRefSlow(weight.sizes()), weight, epsilon);
}

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon) {
  const auto shape = c10::fromIntArrayRefSlow(weight.sizes());
  if (x.is_cpu()) return at::_ops::layer_norm::call(x, shape, weight, bias, epsilon, /*cudnn_enable=*/true);
  const auto dtype = x.scalar_type();
  return at::_ops::layer_norm::call(x, shape, weight.to(dtype), bias.to(dtype), epsilon,
                                    /*cudnn_enable=*/true);
}

Tensor gelu(const Tensor& x) { return at::_ops::gelu::call(x, "tanh"); }

namespace {
bool is_grouped(const Tensor& q, const Tensor& k) { return q.size(1) != k.size(1); }
}  // namespace

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, bool causal) {
  return at::_ops::scaled_dot_product_attention::call(q, k, v, std::nullopt, 0.0, causal, std::nullopt,
                                                      is_grouped(q, k));
}

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& sees) {
  return at::_ops::scaled_dot_product_attention::call(q, k, v, sees, 0.0, false, std::nullopt,
                                                      is_grouped(q, k));
}

std::string engine_version() { return TORCH_VERSION; }
std::string kernel_level() { return at::get_cpu_capability(); }

void set_threads(int num_threads) { at::set_num_threads(num_threads); }

struct Graph::Edges {
  torch::autograd::edge_list list;
};

Graph::Graph() = default;
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;
Graph::~Graph() = default;

Graph::Graph(std::span<const Tensor> roots) : edges_(std::make_unique<Edges>()) {
  for (const Tensor& root : roots) {
    TESSERA_CHECK(root.requires_grad(), "a root of a segment does not depend on anything differentiable");
    edges_->list.push_back(torch::autograd::impl::gradient_edge(root));
  }
}

std::vector<Tensor> Graph::run(std::span<const Tensor> root_gradients, std::span<const Tensor> leaves) {
  TESSERA_CHECK(edges_, "a segment is differentiated twice");
  torch::autograd::edge_list wanted;
  for (const Tensor& leaf : leaves) wanted.push_back(torch::autograd::impl::gradient_edge(leaf));
  const auto edges = std::move(edges_);
  return torch::autograd::Engine::get_default_engine().execute(edges->list,
                                                               {root_gradients.begin(), root_gradients.end()},
                                                               /*keep_graph=*/false, /*create_graph=*/false,
                                                               /*accumulate_grad=*/false, wanted);
}

}  // namespace tessera::tensor
