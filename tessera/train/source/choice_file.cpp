#include "tessera/train/source/choice_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "tessera/base/error.hpp"
#include "tessera/base/files/replace_file.hpp"
#include "tessera/checkpoint/format/safetensors.hpp"

namespace tessera::train {
namespace {

constexpr char kTensor[] = "experts";
constexpr std::uint64_t kLengthBytes = 8, kValueBytes = 2, kMostHeader = 1 << 16;

struct ChoiceHeader {
  ChoiceShape shape;
  std::uint64_t data_begin = 0;
};

ChoiceHeader header_of(const RandomAccessFile& file) {
  std::uint64_t length = 0;
  const auto bytes = std::as_writable_bytes(std::span(&length, 1));
  if (file.bytes() >= kLengthBytes) file.read(0, bytes);
  if (length == 0 || length > kMostHeader || file.bytes() < kLengthBytes + length)
    throw UserError(cat("'", file.path(), "' is no file of choices"));
  std::vector<std::byte> header(kLengthBytes + length);
  file.read(0, header);
  const auto layout = checkpoint::parse_safetensors_layout(file.path(), header);
  const auto found = layout.tensors.find(kTensor);
  if (found == layout.tensors.end() || found->second.dtype != "U16" || found->second.shape.size() != 4 ||
      file.bytes() != header.size() + found->second.bytes)
    throw UserError(
        cat("'", file.path(), "' is no file of choices: it wants one tensor 'experts', U16 with four dims"));
  const auto& shape = found->second.shape;
  return {{shape[0], shape[1], shape[2], shape[3]}, header.size()};
}

std::uint64_t place_of(const ChoiceHeader& header, std::uint64_t sample, std::int64_t layer,
                       std::int64_t position) {
  const ChoiceShape& s = header.shape;
  const std::uint64_t row =
      (sample * static_cast<std::uint64_t>(s.layers) + static_cast<std::uint64_t>(layer)) *
          static_cast<std::uint64_t>(s.positions) +
      static_cast<std::uint64_t>(position);
  return header.data_begin + row * static_cast<std::uint64_t>(s.choices) * kValueBytes;
}

std::string shape_text(const ChoiceShape& s) {
  return cat(s.samples, " samples of ", s.positions, " positions in ", s.layers, " layers with experts, ",
             s.choices, " for a token");
}

Descriptor opened_to_write(const std::string& path, int flags) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC | flags, 0666));
  if (!file) throw UserError(cat("cannot write '", path, "': ", system_reason()));
  return file;
}

void write_at(const std::string& path, const Descriptor& file, std::uint64_t begin,
              std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(file.number(), bytes.data(), bytes.size(), static_cast<off_t>(begin));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw UserError(cat("cannot write '", path, "': ", system_reason()));
    begin += static_cast<std::uint64_t>(n);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

}  // namespace

ChoiceShape choice_shape(const spec::Model& model, const spec::Training& training) {
  return {.samples = training.steps * training.global_batch,
          .layers = model.blocks() - model.dense_layers,
          .positions = model.sequence,
          .choices = model.experts_per_token};
}

void make_choice_file(const std::string& path, const ChoiceShape& shape) {
  if (std::filesystem::exists(path)) {
    const ChoiceShape found = header_of(RandomAccessFile(path)).shape;
    if (found != shape)
      throw UserError(cat("'", path, "' exists and has choices of ", shape_text(found), ", not of ",
                          shape_text(shape), ": remove it, or name another"));
    return;
  }
  make_folder_of(path);
  const std::uint64_t data = static_cast<std::uint64_t>(shape.values()) * kValueBytes;
  std::string header =
      cat("{\"", kTensor, "\":{\"dtype\":\"U16\",\"shape\":[", shape.samples, ",", shape.layers, ",",
          shape.positions, ",", shape.choices, "],\"data_offsets\":[0,", data, "]}}");
  header.resize((header.size() + kLengthBytes - 1) / kLengthBytes * kLengthBytes, ' ');
  const std::uint64_t length = header.size();
  const Descriptor file = opened_to_write(path, O_CREAT | O_EXCL);
  write_at(path, file, 0, std::as_bytes(std::span(&length, 1)));
  write_at(path, file, kLengthBytes, std::as_bytes(std::span(header)));
  if (::ftruncate(file.number(), static_cast<off_t>(kLengthBytes + length + data)) != 0)
    throw UserError(cat("cannot write '", path, "': ", system_reason()));
}

ChoiceReader::ChoiceReader(const std::string& path, const spec::Model& model)
    : file_(path), experts_(model.experts) {
  const ChoiceHeader header = header_of(file_);
  shape_ = header.shape;
  data_begin_ = header.data_begin;
  const ChoiceShape wanted{shape_.samples, model.blocks() - model.dense_layers, model.sequence,
                           model.experts_per_token};
  if (shape_ != wanted)
    throw UserError(
        cat("'", path, "' has choices of ", shape_text(shape_), "; the model wants ", shape_text(wanted)));
}

std::vector<std::int64_t> ChoiceReader::read(std::uint64_t sample, std::int64_t layer) const {
  if (sample >= static_cast<std::uint64_t>(shape_.samples))
    throw UserError(cat("'", file_.path(), "' has choices of the first ", shape_.samples,
                        " samples; this is sample ", sample));
  std::vector<std::uint16_t> values(static_cast<std::size_t>(shape_.positions * shape_.choices));
  file_.read(place_of({shape_, data_begin_}, sample, layer, 0), std::as_writable_bytes(std::span(values)));
  std::vector<std::int64_t> out;
  out.reserve(values.size());
  for (const std::uint16_t value : values) {
    if (value == 0 || value > experts_)
      throw UserError(
          cat("'", file_.path(), "': sample ", sample, ", layer with experts ", layer, ": ",
              value == 0 ? "not all choices were recorded" : cat("expert ", value - 1, " of ", experts_)));
    out.push_back(value - 1);
  }
  return out;
}

ChoiceWriter::ChoiceWriter(const std::string& path) : path_(path), file_(opened_to_write(path, 0)) {
  const ChoiceHeader header = header_of(RandomAccessFile(path));
  shape_ = header.shape;
  data_begin_ = header.data_begin;
}

void ChoiceWriter::write(std::uint64_t sample, std::int64_t layer, std::int64_t position,
                         std::span<const std::int64_t> experts) {
  TESSERA_CHECK(sample < static_cast<std::uint64_t>(shape_.samples) && layer < shape_.layers &&
                    position * shape_.choices + static_cast<std::int64_t>(experts.size()) <=
                        shape_.positions * shape_.choices,
                "choices of sample ", sample, ", layer ", layer, ", position ", position);
  std::vector<std::uint16_t> values;
  values.reserve(experts.size());
  for (const std::int64_t expert : experts) values.push_back(static_cast<std::uint16_t>(expert + 1));
  write_at(path_, file_, place_of({shape_, data_begin_}, sample, layer, position),
           std::as_bytes(std::span(values)));
}

void ChoiceWriter::write_rows(std::uint64_t first_sample, std::int64_t layer,
                              std::span<const std::int64_t> rows) {
  const auto width = static_cast<std::size_t>(shape_.choices) + 1;
  std::vector<std::int64_t> neighbours;
  std::int64_t begin = 0;
  for (std::size_t row = 0; row < rows.size(); row += width) {
    const std::int64_t place = rows[row];
    if (neighbours.empty()) begin = place;
    neighbours.insert(neighbours.end(), rows.begin() + static_cast<std::ptrdiff_t>(row) + 1,
                      rows.begin() + static_cast<std::ptrdiff_t>(row + width));
    const bool goes_on =
        row + width < rows.size() && rows[row + width] == place + 1 && (place + 1) % shape_.positions != 0;
    if (goes_on) continue;
    write(first_sample + static_cast<std::uint64_t>(begin / shape_.positions), layer,
          begin % shape_.positions, neighbours);
    neighbours.clear();
  }
}

}  // namespace tessera::train
