#include "tessera/checkpoint/safetensors.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "tessera/base/error.hpp"
#include "tessera/base/json_depth.hpp"
#include "tessera/checkpoint/replace_file.hpp"

namespace tessera::checkpoint {

namespace {

using Json = nlohmann::json;
static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit
constexpr int kDepth = 3;                               // header, tensor, shape
constexpr const char* kMetadata = "__metadata__";

using Dtype = std::pair<std::string_view, std::uint64_t>;
constexpr Dtype kDtypes[] = {{"BOOL", 1},    {"U8", 1},      {"I8", 1},  {"F8_E5M2", 1},
                             {"F8_E4M3", 1}, {"F8_E8M0", 1}, {"I16", 2}, {"U16", 2},
                             {"F16", 2},     {"BF16", 2},    {"I32", 4}, {"U32", 4},
                             {"F32", 4},     {"I64", 8},     {"U64", 8}, {"F64", 8}};

// One place for the beginning of every complaint, so that each says which file is broken.
struct Reader {
  const std::string& path;

  template <typename... Parts>
  void expect(bool condition, const Parts&... parts) const {
    if (!condition) throw UserError(cat("safetensors file '", path, "': ", parts...));
  }

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

  // A repeated key would silently hide a tensor, and the parser alone keeps the last.
  Json parsed(std::string_view text) const {
    std::vector<std::set<std::string>> keys;
    std::string repeated;
    const auto watch = [&](int, Json::parse_event_t event, Json& value) {
      if (event == Json::parse_event_t::object_start) keys.emplace_back();
      if (event == Json::parse_event_t::object_end) keys.pop_back();
      if (event == Json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second)
        repeated = value.get<std::string>();
      return true;
    };
    expect(text.starts_with('{'), "header does not begin with '{'");
    expect(json_depth(text) <= kDepth, "header is nested deeper than the format allows");
    Json header = Json::parse(text, watch, /*allow_exceptions=*/false);
    expect(!header.is_discarded() && header.is_object(), "header is not a JSON object");
    expect(repeated.empty(), "header names '", repeated, "' twice");
    return header;
  }

  std::vector<std::uint64_t> whole_numbers(const std::string& name, const Json& entry,
                                           const char* key) const {
    const auto found = entry.find(key);
    expect(found != entry.end() && found->is_array(), "tensor '", name, "' has no list '", key, "'");
    for (const Json& number : *found)
      expect(number.is_number_unsigned(), "tensor '", name, "': '", key, "' holds ", number.dump(),
             ", not a whole number");
    return found->get<std::vector<std::uint64_t>>();
  }

  TensorPlace tensor(const std::string& name, const Json& entry) const {
    expect(entry.is_object(), "entry '", name, "' is not an object");
    for (const auto& [key, value] : entry.items())
      expect(key == "dtype" || key == "shape" || key == "data_offsets", "tensor '", name,
             "' has an unknown key '", key, "'");
    const auto dtype = entry.find("dtype");
    expect(dtype != entry.end() && dtype->is_string(), "tensor '", name, "' has no dtype");
    TensorPlace out{.dtype = dtype->get<std::string>(), .shape = {}};
    const auto element = element_bytes(out.dtype);
    expect(element.has_value(), "tensor '", name, "' has unknown dtype '", out.dtype, "'");

    std::uint64_t size = *element;
    for (const std::uint64_t extent : whole_numbers(name, entry, "shape")) {
      expect(std::in_range<std::int64_t>(extent) && !__builtin_mul_overflow(size, extent, &size), "tensor '",
             name, "' has a shape of more than 2^64 bytes");
      out.shape.push_back(static_cast<std::int64_t>(extent));
    }
    const auto offsets = whole_numbers(name, entry, "data_offsets");
    expect(offsets.size() == 2 && offsets[0] <= offsets[1], "tensor '", name,
           "': data_offsets must be [begin, end] with begin <= end");
    expect(offsets[1] - offsets[0] == size, "tensor '", name, "' takes ", offsets[1] - offsets[0],
           " bytes, but its dtype and shape need ", size);
    out.begin = offsets[0];
    out.bytes = size;
    return out;
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

  SafetensorsLayout layout(std::string_view text) const {
    const Json header = parsed(text);
    SafetensorsLayout out;
    for (const auto& [name, entry] : header.items()) {
      if (name != kMetadata) {
        out.tensors.emplace(name, tensor(name, entry));
        continue;
      }
      expect(entry.is_object(), "__metadata__ is not an object");
      for (const auto& [key, value] : entry.items()) {
        expect(value.is_string(), "__metadata__ '", key, "' is not a string");
        out.metadata.emplace(key, value.get<std::string>());
      }
    }
    return out;
  }
};

}  // namespace

std::optional<std::uint64_t> element_bytes(std::string_view dtype) {
  const auto found = std::ranges::find(kDtypes, dtype, &Dtype::first);
  return found == std::end(kDtypes) ? std::nullopt : std::optional(found->second);
}

SafetensorsLayout parse_safetensors_layout(const std::string& path, std::span<const std::byte> header) {
  const Reader reader{path};
  SafetensorsLayout out = reader.layout(reader.header(header));
  reader.covered(out.tensors);
  return out;
}

SafetensorsContent parse_safetensors(const std::string& path, std::span<const std::byte> bytes) {
  const Reader reader{path};
  const auto text = reader.header(bytes);
  const auto data = bytes.subspan(kLengthBytes + text.size());
  SafetensorsLayout layout = reader.layout(text);
  reader.expect_inside(layout.tensors, data.size());
  const std::uint64_t end = reader.covered(layout.tensors);
  reader.expect(end == data.size(), "the last ", data.size() - end, " bytes belong to no tensor");
  SafetensorsContent out{.tensors = {}, .metadata = std::move(layout.metadata)};
  for (auto& [name, place] : layout.tensors)
    out.tensors[name] = {std::move(place.dtype), std::move(place.shape),
                         data.subspan(place.begin, place.bytes)};
  return out;
}

std::span<const std::byte> Safetensors::header() const {
  return bytes().first(kLengthBytes + Reader{path()}.header(bytes()).size());
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
    CHECK(element.has_value(), "dtype ", tensor.dtype);
    std::uint64_t size = *element;
    for (const std::int64_t extent : tensor.shape) size *= static_cast<std::uint64_t>(extent);
    CHECK(size == tensor.bytes.size(), "tensor ", name, " of ", size, " bytes has ", tensor.bytes.size());
    CHECK(name != kMetadata);
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
