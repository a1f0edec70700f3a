#include "tessera/checkpoint/format/manifest.hpp"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "tessera/base/error.hpp"
#include "tessera/base/json_depth.hpp"
#include "tessera/checkpoint/format/safetensors.hpp"

namespace tessera::checkpoint {

namespace {

using Json = nlohmann::json;

constexpr std::string_view kHashKey = "{\"hash\":\"";
constexpr std::size_t kHashDigits = 16;
constexpr int kManifestDepth = 4;  // manifest, list, piece, offset
constexpr std::size_t kMaxDims = 8;
constexpr const char* kFormat = "tessera checkpoint";

std::span<const std::byte> bytes_of_text(std::string_view text) { return std::as_bytes(std::span(text)); }

// One item a line, so that a person can read and compare it.
template <typename Items, typename Line>
std::string lines(const char* key, const Items& items, const Line& line) {
  std::string out = cat(",\n\"", key, "\":[");
  for (const char* before = "\n"; const auto& item : items) {
    out += before + line(item).dump();
    before = ",\n";
  }
  return out + "]";
}

// What a manifest says, read without trust; each complaint names the file.
struct ManifestReader {
  const std::string& path;

  template <typename... Parts>
  void expect(bool condition, const Parts&... parts) const {
    if (!condition) throw UserError(cat("'", path, "': ", parts...));
  }

  const Json& at(const Json& object, const char* key) const {
    const auto found = object.is_object() ? object.find(key) : object.end();
    expect(found != object.end(), "there is no '", key, "'");
    return *found;
  }

  std::string text(const Json& object, const char* key) const {
    const Json& value = at(object, key);
    expect(value.is_string(), "'", key, "' is not a text");
    return value.get<std::string>();
  }

  template <typename Number>
  Number number(const Json& value, const char* key) const {
    const bool fits = value.is_number_unsigned() &&
                      value.get<std::uint64_t>() <= std::uint64_t(std::numeric_limits<Number>::max());
    expect(fits, "'", key, "' holds ", value.dump().substr(0, 40), ", not a whole number of its range");
    return value.get<Number>();
  }
  template <typename Number>
  Number number_at(const Json& object, const char* key) const {
    return number<Number>(at(object, key), key);
  }

  std::int64_t signed_at(const Json& object, const char* key) const {
    const Json& value = at(object, key);
    expect(value.is_number_integer() && std::abs(value.get<double>()) < 0x1p62, "'", key, "' holds ",
           value.dump(), ", not a whole number of its range");
    return value.get<std::int64_t>();
  }

  const Json& list(const Json& object, const char* key) const {
    const Json& value = at(object, key);
    expect(value.is_array(), "'", key, "' is not a list");
    return value;
  }

  Shape shape(const Json& object, const char* key) const {
    Shape out;
    for (const Json& size : list(object, key)) out.push_back(number<std::int64_t>(size, key));
    return out;
  }

  std::uint64_t hash(const Json& object, const char* key) const {
    const std::string digits = text(object, key);
    const bool good =
        digits.size() == kHashDigits && digits.find_first_not_of("0123456789abcdef") == std::string::npos;
    expect(good, "'", key, "' is not a hash");
    return std::stoull(digits, nullptr, 16);
  }

  // The text after the hash must have that hash.
  Json checked(std::string_view text) const {
    const std::size_t head = kHashKey.size() + kHashDigits;
    expect(text.starts_with(kHashKey) && text.size() > head && text[head] == '"',
           "this is not a manifest of a Tessera checkpoint, or its beginning is damaged");
    const std::string_view digits = text.substr(kHashKey.size(), kHashDigits), rest = text.substr(head);
    expect(hash_text(hash_of(bytes_of_text(rest))) == digits, "the manifest is damaged: its hash is another");
    expect(json_depth(text) <= kManifestDepth, "the manifest is nested deeper than its format allows");
    Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    expect(json.is_object(), "the manifest is not a JSON object");
    expect(this->text(json, "format") == kFormat, "the format is not '", kFormat, "'");
    const auto version = number_at<std::int64_t>(json, "version");
    expect(version == kFormatVersion, "written in version ", version,
           " of the format; this Tessera reads version ", kFormatVersion, ". Use the Tessera that wrote it (",
           this->text(json, "written_by"), ") or a later one.");
    return json;
  }

  Progress progress(const Json& json) const {
    Progress out{.step = number_at<std::int64_t>(json, "step"),
                 .updates = number_at<std::int64_t>(json, "updates"),
                 .next_sample = number_at<std::uint64_t>(json, "next_sample"),
                 .seed = number_at<std::uint64_t>(json, "seed"),
                 .good_steps = number_at<std::int64_t>(json, "good_steps")};
    const Json& scale = at(json, "loss_scale");
    expect(scale.is_number() && scale.get<double>() >= 0, "'loss_scale' is not a number of at least 0");
    out.loss_scale = scale.get<double>();
    if (json.contains("reset_after")) out.reset_after = signed_at(json, "reset_after");
    expect(out.reset_after <= out.updates, "'reset_after' is more than 'updates'");
    return out;
  }

  // Its size in bytes must be a number, whatever the shape says.
  void add_tensor(const Json& json, Manifest& out) const {
    const std::string name = text(json, "name");
    Tensor tensor{text(json, "dtype"), shape(json, "shape")};
    const auto element = element_bytes(tensor.dtype);
    expect(element.has_value(), "tensor '", name, "' has unknown dtype '", tensor.dtype, "'");
    expect(tensor.shape.size() <= kMaxDims, "tensor '", name, "' has more than ", kMaxDims, " dims");
    auto bytes = static_cast<std::int64_t>(*element);
    for (const std::int64_t size : tensor.shape)
      expect(!__builtin_mul_overflow(bytes, size, &bytes), "tensor '", name, "' is larger than 2^63 bytes");
    expect(out.tensors.emplace(name, std::move(tensor)).second, "tensor '", name, "' is listed twice");
  }

  File file(const Json& json) const {
    File out{text(json, "name"), number_at<std::uint64_t>(json, "bytes"), hash(json, "hash")};
    bool inside = !out.name.empty() && out.name.find('\0') == std::string::npos;
    for (std::size_t begin = 0; inside && begin <= out.name.size();) {
      const std::size_t end = std::min(out.name.find('/', begin), out.name.size());
      const std::string part = out.name.substr(begin, end - begin);
      inside = !part.empty() && part != "." && part != "..";
      begin = end + 1;
    }
    expect(inside, "file name '", out.name, "' leaves the checkpoint's folder");
    expect(out.bytes <= std::uint64_t(std::numeric_limits<std::int64_t>::max()), "file '", out.name,
           "' is too large");
    return out;
  }

  Piece piece(const Json& json, const Manifest& known) const {
    Piece out{text(json, "tensor"),
              {shape(json, "offset"), shape(json, "extent")},
              number_at<std::uint32_t>(json, "file"),
              number_at<std::uint64_t>(json, "begin")};
    const auto tensor = known.tensors.find(out.tensor);
    expect(tensor != known.tensors.end(), "a piece of tensor '", out.tensor, "', which is not listed");
    const Shape& shape = tensor->second.shape;
    bool fits = out.box.offset.size() == shape.size() && out.box.extent.size() == shape.size();
    for (std::size_t dim = 0; fits && dim < shape.size(); ++dim)
      fits = out.box.offset[dim] <= shape[dim] && out.box.extent[dim] <= shape[dim] - out.box.offset[dim];
    expect(fits, "a piece of '", out.tensor, "' lies outside the tensor");
    expect(out.file < known.files.size(), "a piece of '", out.tensor, "' lies in file ", out.file, " of ",
           known.files.size());
    const File& file = known.files[out.file];
    const std::uint64_t bytes = bytes_of(out, tensor->second);
    expect(out.begin <= file.bytes && bytes <= file.bytes - out.begin, "a piece of '", out.tensor,
           "' reaches beyond file '", file.name, "'");
    return out;
  }

  void expect_tiled(const Manifest& manifest) const {
    std::map<std::string, std::vector<Box>> boxes;
    for (const Piece& piece : manifest.pieces)
      if (piece.box.elements() > 0) boxes[piece.tensor].push_back(piece.box);
    for (const auto& [name, tensor] : manifest.tensors)
      if (const auto problem = tiling_problem(tensor.shape, std::move(boxes[name])))
        expect(false, "tensor '", name, "': ", *problem);
  }

  Manifest manifest(std::string_view text) const {
    const Json json = checked(text);
    Manifest out{.written_by = this->text(json, "written_by"),
                 .progress = progress(at(json, "progress")),
                 .config = this->text(json, "config"),
                 .program_hash = this->text(json, "program_hash")};
    if (const auto data = json.find("data"); data != json.end())
      out.data = DataIdentity{number_at<std::uint64_t>(*data, "bytes"), hash(*data, "hash")};
    for (const Json& tensor : list(json, "tensors")) add_tensor(tensor, out);
    std::set<std::string> names;
    for (const Json& file : list(json, "files")) {
      out.files.push_back(this->file(file));
      expect(names.insert(out.files.back().name).second, "file '", out.files.back().name,
             "' is listed twice");
    }
    for (const Json& piece : list(json, "pieces")) out.pieces.push_back(this->piece(piece, out));
    return out;
  }
};

}  // namespace

std::vector<std::string> tensors_in_file_order(const Manifest& manifest) {
  std::map<std::string, std::pair<std::uint32_t, std::uint64_t>> first;
  for (const Piece& piece : manifest.pieces) {
    const auto [at, is_new] = first.try_emplace(piece.tensor, piece.file, piece.begin);
    if (!is_new) at->second = std::min(at->second, std::pair(piece.file, piece.begin));
  }
  std::vector<std::string> out;
  for (const auto& [name, tensor] : manifest.tensors) out.push_back(name);
  std::ranges::stable_sort(out, {}, [&](const std::string& name) { return first[name]; });
  return out;
}

std::uint64_t bytes_of(const Tensor& tensor) {
  return static_cast<std::uint64_t>(num_elements(tensor.shape)) * element_bytes(tensor.dtype).value();
}

std::uint64_t bytes_of(const Piece& piece, const Tensor& tensor) {
  return static_cast<std::uint64_t>(piece.box.elements()) * element_bytes(tensor.dtype).value();
}

std::string to_text(const Manifest& manifest) {
  const Progress& p = manifest.progress;
  Json progress = {{"step", p.step}, {"updates", p.updates},       {"next_sample", p.next_sample},
                   {"seed", p.seed}, {"loss_scale", p.loss_scale}, {"good_steps", p.good_steps}};
  // Left out where they say nothing, as in what earlier versions wrote.
  if (p.reset_after != 0) progress["reset_after"] = p.reset_after;
  const std::string data =
      !manifest.data
          ? ""
          : cat(",\n\"data\":",
                Json{{"bytes", manifest.data->bytes}, {"hash", hash_text(manifest.data->hash)}}.dump());
  std::string rest = cat("\",\n\"format\":\"", kFormat, "\",\n\"version\":", kFormatVersion,
                         ",\n\"written_by\":", Json(manifest.written_by).dump(),
                         ",\n\"progress\":", progress.dump(), ",\n\"config\":", Json(manifest.config).dump(),
                         ",\n\"program_hash\":", Json(manifest.program_hash).dump(), data);
  rest += lines("tensors", manifest.tensors, [](const auto& item) {
    return Json{{"name", item.first}, {"dtype", item.second.dtype}, {"shape", item.second.shape}};
  });
  rest += lines("files", manifest.files, [](const File& file) {
    return Json{{"name", file.name}, {"bytes", file.bytes}, {"hash", hash_text(file.hash)}};
  });
  rest += lines("pieces", manifest.pieces, [](const Piece& piece) {
    return Json{{"tensor", piece.tensor},
                {"offset", piece.box.offset},
                {"extent", piece.box.extent},
                {"file", piece.file},
                {"begin", piece.begin}};
  });
  rest += "}\n";
  return cat(kHashKey, hash_text(hash_of(bytes_of_text(rest))), rest);
}

Manifest parse_manifest(std::string_view text, const std::string& path) {
  const ManifestReader reader{path};
  Manifest out = reader.manifest(text);
  reader.expect_tiled(out);
  return out;
}

Manifest parse_part(std::string_view text, const std::string& path) {
  return ManifestReader{path}.manifest(text);
}

Manifest merged(const std::vector<Manifest>& parts) {
  TESSERA_CHECK(!parts.empty());
  Manifest out = parts.front();
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const auto first_file = static_cast<std::uint32_t>(out.files.size());
    for (const auto& [name, tensor] : parts[i].tensors)
      if (const auto [at, is_new] = out.tensors.emplace(name, tensor); !is_new && at->second != tensor)
        throw UserError(cat("ranks disagree about tensor '", name, "'"));
    if (parts[i].progress != out.progress) throw UserError("ranks saved different steps");
    out.files.insert(out.files.end(), parts[i].files.begin(), parts[i].files.end());
    for (Piece piece : parts[i].pieces) {
      piece.file += first_file;
      out.pieces.push_back(std::move(piece));
    }
  }
  return out;
}

}  // namespace tessera::checkpoint
