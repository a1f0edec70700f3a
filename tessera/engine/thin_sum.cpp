#include "tessera/engine/thin_sum.hpp"

#include <cmath>
#include <functional>

#include "tessera/base/random.hpp"
#include "tessera/program/ir/calls.hpp"
#include "tessera/tensor/device.hpp"

namespace tessera::engine {

using tensor::read_here;
using tensor::Tensor;

namespace {

// Numbers between -1 and 1, a function of (seed, name, index).
Tensor drawn(std::uint64_t seed, const std::string& name, std::int64_t rows, std::int64_t columns,
             at::ScalarType dtype) {
  const auto of_name = static_cast<std::uint64_t>(std::hash<std::string>()(name));
  Tensor out = tensor::empty({rows, columns}, at::kDouble);
  auto* to = out.mutable_data_ptr<double>();
  for (std::int64_t i = 0; i < rows * columns; ++i) {
    const auto word = philox({static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i >> 32),
                              static_cast<std::uint32_t>(of_name), static_cast<std::uint32_t>(of_name >> 32)},
                             {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)})[0];
    to[i] = static_cast<double>(word) / 0x1p31 - 1;
  }
  return out.to(dtype);
}

}  // namespace

void orthonormalize(Tensor& p) {
  constexpr double kSpanned = 1e-12;  // of its length before
  for (std::int64_t column = 0; column < p.size(1); ++column) {
    Tensor own = p.select(1, column);
    const Tensor before = own.norm();
    for (int twice = 0; twice < 2; ++twice)
      for (std::int64_t earlier = 0; earlier < column; ++earlier) {
        const Tensor other = p.select(1, earlier);
        own.sub_(other.mul(own.dot(other)));
      }
    const Tensor length = own.norm();
    own.copy_(own.div(length).masked_fill(length.gt(before.mul(kSpanned)).logical_not(), 0));
  }
}

ThinSum::ThinSum(const program::Bucket& bucket, std::uint64_t seed, at::ScalarType dtype, at::Device device)
    : bucket_(bucket), dtype_(dtype), device_(device) {
  for (const program::Parameter& parameter : bucket.parameters)
    if (program::is_thin(parameter, bucket.rank))
      q_.push_back(
          drawn(seed, parameter.name, parameter.elements() / parameter.shape.front(), bucket.rank, dtype)
              .to(device));
}

void ThinSum::reduce(Tensor& whole, const collective::Group& group) {
  if (error_.defined()) whole.add_(read_here(error_));
  const program::ThinElements sizes = program::thin_elements(bucket_);
  Tensor first = tensor::empty({sizes.first}, whole.scalar_type(), device_),
         second = tensor::empty({sizes.second}, whole.scalar_type(), device_);
  // Each thin matrix with its places in the two buffers; what goes as it is with its place in the first.
  const auto visit = [&](auto thin, auto as_it_is) {
    std::int64_t at_first = 0, at_second = 0;
    std::size_t number = 0;
    for (const program::Parameter& parameter : bucket_.parameters) {
      const Tensor flat = whole.narrow(0, parameter.offset, parameter.elements());
      const std::int64_t rows = parameter.shape.front(), columns = parameter.elements() / rows;
      if (!program::is_thin(parameter, bucket_.rank)) {
        as_it_is(flat, first.narrow(0, at_first, flat.numel()));
        at_first += flat.numel();
        continue;
      }
      thin(flat.view({rows, columns}),
           first.narrow(0, at_first, rows * bucket_.rank).view({rows, bucket_.rank}),
           second.narrow(0, at_second, columns * bucket_.rank).view({columns, bucket_.rank}), q_[number++]);
      at_first += rows * bucket_.rank;
      at_second += columns * bucket_.rank;
    }
  };
  const auto nothing = [](const Tensor&, Tensor) {};
  visit([](const Tensor& m, Tensor p, Tensor, const Tensor& q) { p.copy_(m.matmul(read_here(q))); },
        [](const Tensor& flat, Tensor place) { place.copy_(flat); });
  group.all_reduce_sum(first);
  visit(
      [](const Tensor& m, Tensor p, Tensor next, const Tensor&) {
        orthonormalize(p);
        next.copy_(m.t().matmul(p));
      },
      nothing);
  if (sizes.second > 0) group.all_reduce_sum(second);
  // A gradient that is not finite ends here, on all ranks: the step is not taken, and what is kept stays.
  const Tensor is_lost = first.sum().add(second.sum()).isfinite().logical_not();
  Tensor error = tensor::zeros({whole.numel()}, whole.scalar_type(), device_);
  if (!error_.defined()) error_ = tensor::zeros({whole.numel()}, whole.scalar_type(), device_);
  const double share = 1.0 / group.size();
  visit(
      [&](Tensor m, Tensor p, Tensor next, Tensor& q) {
        const Tensor product = p.matmul(next.t());
        Tensor left_out =
            error.narrow(0, m.storage_offset() - whole.storage_offset(), m.numel()).view(m.sizes());
        left_out.copy_(m.sub(product, share));
        m.copy_(product);
        q = q.where(is_lost, next);
      },
      [](Tensor flat, const Tensor& place) { flat.copy_(place); });
  whole.masked_fill_(is_lost, std::numeric_limits<double>::quiet_NaN());
  error_ = error_.where(is_lost, error);
}

namespace {

// Calls with each thin parameter's place in a flat, as [rank, columns], and its number.
void visit_directions(const program::Bucket& bucket, const Tensor& flat,
                      const std::function<void(Tensor, std::size_t)>& visit) {
  std::size_t number = 0;
  for (const program::Parameter& parameter : bucket.parameters) {
    if (!program::is_thin(parameter, bucket.rank)) continue;
    const std::int64_t columns = parameter.elements() / parameter.shape.front();
    visit(flat.narrow(0, parameter.offset, bucket.rank * columns).view({bucket.rank, columns}), number++);
  }
}

}  // namespace

Tensor ThinSum::directions() const {
  Tensor out = tensor::zeros({bucket_.elements}, dtype_, device_);
  visit_directions(bucket_, out,
                   [this](Tensor place, std::size_t number) { place.copy_(read_here(q_[number]).t()); });
  return out;
}

void ThinSum::set_directions(const Tensor& flat) {
  visit_directions(bucket_, flat, [this](const Tensor& place, std::size_t number) {
    q_[number] = place.t().contiguous().to(device_);
  });
}

void ThinSum::settle(const collective::Group& group) {
  if (!error_.defined() || group.size() == 1) return;
  read_here(error_);
  group.all_reduce_sum(error_);
  error_.div_(static_cast<double>(group.size()));
}

}  // namespace tessera::engine
