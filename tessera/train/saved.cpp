#include "tessera/train/saved.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/checkpoint/format/names.hpp"
#include "tessera/shard/stored_dtype.hpp"
#include "tessera/tensor/pinned_ring.hpp"
#include "tessera/train/fits.hpp"

namespace tessera::train {

namespace {

using checkpoint::Checkpoint;
using checkpoint::HeldPiece;
using program::Parameter;
using tensor::Tensor;

constexpr std::int64_t kReadElements = 4 << 20;  // read at a time
constexpr std::size_t kWriteBytes = 16 << 20;    // written at a time

// The start of the row of a parameter in which the element lies: pieces cut there are whole rows.
std::int64_t row_start(const program::Bucket& bucket, std::int64_t element) {
  for (const Parameter& parameter : bucket.parameters) {
    const std::int64_t row = parameter.elements() / parameter.shape.front();
    if (element >= parameter.offset && element < parameter.offset + parameter.elements())
      return element - (element - parameter.offset) % row;
  }
  return element;
}

// Elements [first, end) of the bucket's flat that this rank brings of a buffer.
struct Range {
  std::int64_t first = 0, end = 0;
};

Range share(const program::Bucket& bucket, const Kept& kept) {
  const std::int64_t elements = kept.flat.numel();
  const auto cut = [&](std::int64_t place) {
    if (place == 0 || place == kept.holder.count) return kept.first + elements * place / kept.holder.count;
    return std::max(kept.first, row_start(bucket, kept.first + elements * place / kept.holder.count));
  };
  return {cut(kept.holder.position), cut(kept.holder.position + 1)};
}

// The part of a parameter in the range, in elements of the parameter.
Range within(const Parameter& parameter, const Range& range) {
  const std::int64_t first = std::max(range.first, parameter.offset) - parameter.offset;
  const std::int64_t end = std::min(range.end, parameter.offset + parameter.elements()) - parameter.offset;
  return end > first ? Range{first, end} : Range{};
}

using Visit = std::function<void(const HeldPiece& piece, const Tensor& elements)>;

// All pieces that this rank brings, without their bytes, in the order of the file: those in 16 bits last, so
// that every element is aligned.
void for_each_piece(Session& session, const Visit& visit) {
  for (const bool is_previous : {false, true})
    for (const auto& bucket : session.buckets()) {
      if (is_previous && !bucket.table().delayed) continue;
      for (const Kept& kept : session.kept(bucket)) {
        if ((kept.prefix == kPreviousPrefix) != is_previous) continue;
        const Range brought = share(bucket.table(), kept);
        for (const Parameter& parameter : bucket.table().parameters) {
          const Range range = within(parameter, brought);
          std::int64_t at = parameter.offset + range.first - kept.first;
          for (const Box& box : boxes_of_range(parameter.shape, range.first, range.end - range.first)) {
            const std::int64_t elements = box.elements();
            visit({kept.prefix + parameter.name,
                   shard::stored_word(kept.flat.scalar_type()),
                   parameter.whole_shape(),
                   moved(box, parameter.box(bucket.part().position).offset),
                   {}},
                  kept.flat.narrow(0, at, elements));
            at += elements;
          }
        }
      }
    }
}

// `part` of the parameter is what the bucket holds.
void read_into(const Kept& kept, const Parameter& parameter, const Slice& part, Checkpoint& from,
               std::vector<std::byte>& buffer, ActivityLog* log) {
  const std::string name = kept.prefix + parameter.name;
  const auto dtype = shard::stored_dtype(from.tensor(name).dtype, cat(name, " in ", from.folder()));
  const Range wanted = within(parameter, {kept.first, kept.first + kept.flat.numel()});
  for (std::int64_t first = wanted.first; first < wanted.end; first += kReadElements) {
    const During reading(log, Doing::resuming);
    const std::int64_t count = std::min(kReadElements, wanted.end - first);
    buffer.resize(static_cast<std::size_t>(count) * c10::elementSize(dtype));
    auto rest = std::span(buffer);
    for (const Box& box : boxes_of_range(parameter.shape, first, count)) {
      const auto bytes = rest.first(static_cast<std::size_t>(box.elements()) * c10::elementSize(dtype));
      from.read(name, moved(box, parameter.box(part.position).offset), bytes);
      rest = rest.subspan(bytes.size());
    }
    kept.flat.narrow(0, parameter.offset + first - kept.first, count)
        .copy_(tensor::view_of(buffer.data(), {count}, dtype));
  }
}

}  // namespace

void Snapshot::take(Session& session) {
  pieces_.clear();
  std::size_t bytes = 0;
  std::vector<std::size_t> begins;
  for_each_piece(session, [&](HeldPiece piece, const Tensor& elements) {
    begins.push_back(bytes);
    bytes += elements.nbytes();
    pieces_.push_back(std::move(piece));
  });
  if (memory_bytes_ < bytes) {
    memory_.reset();
    memory_bytes_ = 0;
    memory_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
    memory_bytes_ = bytes;
  }
  std::size_t index = 0;
  tensor::PinnedRing ring;
  for_each_piece(session, [&](const HeldPiece&, const Tensor& elements) {
    std::byte* to = memory_.get() + begins[index];
    ring.read(elements, [&](std::span<const std::byte> some, std::size_t offset) {
      std::ranges::copy(some, to + offset);
    });
    pieces_[index++].bytes = {to, elements.nbytes()};
  });
}

namespace {

void append(checkpoint::ShardWriter& writer, std::span<const std::byte> bytes,
            const std::function<void()>& began) {
  do {
    began();
    const auto some = bytes.first(std::min(bytes.size(), kWriteBytes));
    writer.append(some);
    bytes = bytes.subspan(some.size());
  } while (!bytes.empty());
}

}  // namespace

void Snapshot::write(const std::string& folder, std::int64_t rank, checkpoint::Manifest& part,
                     const std::function<void()>& began) const {
  checkpoint::ShardWriter writer(folder, rank, pieces_);
  for (const HeldPiece& piece : pieces_) append(writer, piece.bytes, began);
  began();
  writer.finish(part);
}

void write_state(Session& session, const std::string& folder, std::int64_t rank, checkpoint::Manifest& part,
                 const std::function<void()>& began) {
  std::vector<HeldPiece> pieces;
  for_each_piece(session, [&](const HeldPiece& piece, const Tensor&) { pieces.push_back(piece); });
  checkpoint::ShardWriter writer(folder, rank, pieces);
  tensor::PinnedRing ring;
  for_each_piece(session, [&](const HeldPiece&, const Tensor& elements) {
    ring.read(elements, [&](std::span<const std::byte> some, std::size_t) { append(writer, some, began); });
  });
  began();
  writer.finish(part);
}

void restore(Session& session, Checkpoint& from) {
  std::vector<std::byte> buffer;
  for (auto& bucket : session.buckets()) {
    const auto& parameters = bucket.table().parameters;
    const bool has_previous = from.has(kPreviousPrefix + parameters.front().name);
    if (bucket.table().delayed) bucket.end_full();
    if (bucket.table().delayed && has_previous) bucket.begin_full();
    const auto kept = session.kept(bucket);
    for (const Kept& part : kept) {
      if (!from.has(part.prefix + parameters.front().name)) continue;
      for (const Parameter& parameter : parameters)
        read_into(part, parameter, bucket.part(), from, buffer, session.log());
    }
    session.put_back(bucket, kept);
  }
  if (!goes_on(from.manifest())) return;
  auto progress = from.manifest().progress;
  if (!has_same_optimizer(session, from.manifest())) progress.reset_after = progress.updates;
  session.go_on_from(progress);
}

}  // namespace tessera::train
