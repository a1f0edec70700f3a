#include "tessera/checkpoint/format/safetensors.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "tessera/base/error.hpp"
#include "tessera/base/files/replace_file.hpp"
#include "tessera/checkpoint/format/safetensors_header.hpp"

namespace tessera::checkpoint {

namespace {

using Json = nlohmann::json;
static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit

using Dtype = std::pair<std::string_view, std::uint64_t>;
constexpr Dtype kDtypes[] = {{"BOOL", 1},    {"U8", 1},      {"I8", 1},  {"F8_E5M2", 1},
                             {"F8_E4M3", 1}, {"F8_E8M0", 1}, {"I16", 2}, {"U16", 2},
                             {"F16", 2},     {"BF16", 2},    {"I32", 4}, {"U32", 4},
                             {"F32", 4},     {"I64", 8},     {"U64", 8}, {"F64", 8}};

struct TensorsReader : Expectations {
  std::string_view header(std::span<const std::byte> bytes) const {
    expect(bytes.size() >= kLengthBytes, "has ", bytes.size(), " bytes; the header length alone takes 8");
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), kLengthBytes);
    expect(length <= kMaxHeaderBytes, "header length ", length, " is above the format's limit of ",
           kMaxHeaderBytes);
    expect(length <= bytes.size() - kLengthBytes, "header length ", length, " reaches beyond the file's ",
           bytes.size(), " bytes; is the file cut off?");
    const auto text = bytes.subspan(kLengthBytes, length);
    return {reinterpret_cast<const char*>(text.data()), text.size()};
  }

  // The format wants the data covered exactly: no overlap, no holes. Returns how many bytes that is.
  std::uint64_t covered(const std::map<std::string, TensorPlace>& tensors) const {
    std::vector<std::pair<const TensorPlace*, std::string_view>> parts;
    for (const auto& [name, tensor] : tensors)
      if (tensor.bytes > 0) parts.emplace_back(&tensor, name);
    std::ranges::sort(parts, {}, [](const auto& part) { return part.first->begin; });
    std::uint64_t end = 0;
    std::string_view before = "the header";
    for (const auto& [tensor, name] : parts) {
      expect(tensor->begin >= end, "tensors '", before, "' and '", name, "' overlap");
      expect(tensor->begin == end, "bytes between '", before, "' and '", name, "' belong to no tensor");
      end = tensor->begin + tensor->bytes;
      before = name;
    }
    return end;
  }

  void expect_inside(const std::map<std::string, TensorPlace>& tensors, std::uint64_t data_bytes) const {
    for (const auto& [name, tensor] : tensors)
      expect(tensor.begin <= data_bytes && tensor.bytes <= data_bytes - tensor.begin, "tensor '", name,
             "' ends at byte ", tensor.begin + tensor.bytes, " of the data, which has ", data_bytes,
             "; is the file cut off?");
  }
};

}  // namespace

std::optional<std::uint64_t> element_bytes(std::string_view dtype) {
  const auto found = std::ranges::find(kDtypes, dtype, &Dtype::first);
  return found == std::end(kDtypes) ? std::nullopt : std::optional(found->second);
}

SafetensorsLayout parse_safetensors_layout(const std::string& path, std::span<const std::byte> header) {
  const TensorsReader reader{path};
  SafetensorsLayout out = parse_safetensors_header(path, reader.header(header));
  reader.covered(out.tensors);
  return out;
}

SafetensorsContent parse_safetensors(const std::string& path, std::span<const std::byte> bytes) {
  const TensorsReader reader{path};
  const auto text = reader.header(bytes);
  const auto data = bytes.subspan(kLengthBytes + text.size());
  SafetensorsLayout layout = parse_safetensors_header(path, text);
  reader.expect_inside(layout.tensors, data.size());
  const std::uint64_t end = reader.covered(layout.tensors);
  reader.expect(end == data.size(), "the last ", data.size() - end, " bytes belong to no tensor");
  SafetensorsContent out{.tensors = {}, .metadata = std::move(layout.metadata)};
  for (auto& [name, place] : layout.tensors)
    out.tensors.emplace_hint(
        out.tensors.end(), name,
        TensorBytes{std::move(place.dtype), std::move(place.shape), data.subspan(place.begin, place.bytes)});
  return out;
}

std::span<const std::byte> Safetensors::header() const {
  return bytes().first(kLengthBytes + TensorsReader{path()}.header(bytes()).size());
}

const TensorBytes& Safetensors::tensor(const std::string& name) const {
  if (const auto found = tensors().find(name); found != tensors().end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [known, tensor] : tensors()) names.push_back(known);
  const auto near = nearest(name, names);
  throw UserError(cat("safetensors file '", path(), "' has no tensor '", name, "'",
                      near ? cat("; did you mean '", *near, "'?") : cat(" among its ", names.size())));
}

void write_safetensors(const std::string& path, const std::map<std::string, TensorBytes>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  // Wide elements first keep every tensor aligned to its element, since the header is padded to 8 bytes.
  std::vector<std::pair<std::uint64_t, std::string>> order;
  for (const auto& [name, tensor] : tensors) {
    const auto element = element_bytes(tensor.dtype);
    TESSERA_CHECK(element.has_value(), "dtype ", tensor.dtype);
    std::uint64_t size = *element;
    for (const std::int64_t extent : tensor.shape) size *= static_cast<std::uint64_t>(extent);
    TESSERA_CHECK(size == tensor.bytes.size(), "tensor ", name, " of ", size, " bytes has ",
                  tensor.bytes.size());
    TESSERA_CHECK(name != kMetadata);
    order.emplace_back(kLengthBytes - *element, name);
  }
  std::ranges::sort(order);

  Json header = Json::object();
  if (!metadata.empty()) header[kMetadata] = metadata;
  std::uint64_t offset = 0;
  for (const auto& [rank, name] : order) {
    const TensorBytes& tensor = tensors.at(name);
    header[name] = {{"dtype", tensor.dtype},
                    {"shape", tensor.shape},
                    {"data_offsets", {offset, offset + tensor.bytes.size()}}};
    offset += tensor.bytes.size();
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();
  std::vector<std::span<const std::byte>> parts = {std::as_bytes(std::span(&length, 1)),
                                                   std::as_bytes(std::span(text))};
  for (const auto& [rank, name] : order) parts.push_back(tensors.at(name).bytes);
  replace_file(path, parts);
}

}  // namespace tessera::checkpoint
