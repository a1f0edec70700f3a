#include "tessera/program/generate.hpp"

#include "tessera/base/error.hpp"
#include "tessera/program/waits.hpp"

namespace tessera::program {
namespace {

class DataParallel {
 public:
  DataParallel(const Tables& tables, const GenerateOptions& options) : tables_(tables), options_(options) {
    first_reader_.resize(tables.buckets.size(), kNobody);
    for (std::uint32_t segment = static_cast<std::uint32_t>(tables.segments.size()); segment-- > 0;)
      for (const std::uint32_t bucket : tables.segments[segment].buckets) first_reader_[bucket] = segment;
    for (const Bucket& bucket : tables.buckets) {
      CHECK(!bucket.trainable || bucket.reduced_over >= 0, "bucket ", bucket.name,
            " has no axes to reduce over");
      if (bucket.trainable) data_axes_ = bucket.reduced_over;
    }
    CHECK(data_axes_ >= 0, "nothing to train: no bucket is trainable");
  }

  Sequence run() {
    sum(Role::tokens);
    for (std::uint32_t bucket = 0; bucket < tables_.buckets.size(); ++bucket) gather(bucket);
    for (std::int32_t micro = 0; micro < tables_.num_micro; ++micro) micro_batch(micro);
    for (const Role role : {Role::loss, Role::norm, Role::finite}) sum(role);
    for (std::uint32_t bucket = 0; bucket < tables_.buckets.size(); ++bucket)
      if (tables_.buckets[bucket].trainable) sequence_.ops.push_back({.what = What::step, .item = bucket});
    return std::move(sequence_);
  }

 private:
  static constexpr std::uint32_t kNobody = 0xffff'ffffu;

  // All group ops of an axis set share a lane: ranks would otherwise meet in different orders.
  Lane lane_over(std::int16_t axes) const {
    return options_.overlap && axes >= 0 ? communication(axes) : kCompute;
  }

  void sum(Role role) {
    for (std::uint32_t number = 0; number < tables_.numbers.size(); ++number)
      if (tables_.numbers[number].role == role)
        sequence_.ops.push_back(
            {.what = What::sum, .lane = lane_over(data_axes_), .item = number, .along = data_axes_});
  }

  void gather(std::uint32_t bucket) {
    const Bucket& b = tables_.buckets[bucket];
    if (b.full_resident || first_reader_[bucket] == kNobody) return;
    sequence_.ops.push_back(
        {.what = What::gather, .lane = lane_over(b.sharded_over), .item = bucket, .along = b.sharded_over});
  }

  void micro_batch(std::int32_t micro) {
    const auto num_segments = static_cast<std::uint32_t>(tables_.segments.size());
    for (std::uint32_t segment = 0; segment < num_segments; ++segment) compute(What::forward, segment, micro);
    for (std::uint32_t segment = num_segments; segment-- > 0;) {
      if (options_.split_backward) {
        compute(What::backward_input, segment, micro);
        compute(What::backward_weight, segment, micro);
      } else {
        compute(What::backward, segment, micro);
      }
      if (micro == tables_.num_micro - 1) finish_buckets(segment);
    }
  }

  void compute(What what, std::uint32_t segment, std::int32_t micro) {
    sequence_.ops.push_back({.what = what, .item = segment, .micro = micro});
  }

  // Backwards run in reverse, so a bucket's last gradient is made by the first segment that reads it.
  void finish_buckets(std::uint32_t segment) {
    for (const std::uint32_t bucket : tables_.segments[segment].buckets) {
      const Bucket& b = tables_.buckets[bucket];
      if (first_reader_[bucket] != segment) continue;
      if (b.trainable)
        sequence_.ops.push_back({.what = What::reduce,
                                 .lane = lane_over(b.reduced_over),
                                 .item = bucket,
                                 .along = b.reduced_over,
                                 .flags = kEndsSource});
      if (!b.full_resident)
        sequence_.ops.push_back(
            {.what = What::free, .item = bucket, .flags = static_cast<std::uint16_t>(CellKind::full)});
    }
  }

  const Tables& tables_;
  const GenerateOptions options_;
  std::vector<std::uint32_t> first_reader_;  // segment, per bucket
  std::int16_t data_axes_ = -1;
  Sequence sequence_;
};

}  // namespace

Program data_parallel(const Tables& tables, const GenerateOptions& options) {
  Program program{tables, {DataParallel(tables, options).run()}};
  build_waits(program.classes[0], tables);
  return program;
}

}  // namespace tessera::program
