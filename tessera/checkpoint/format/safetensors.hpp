// A reader of safetensors files that maps the file and trusts nothing in it, and a writer. Format: docs of
// Hugging Face's `safetensors`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/files/mapped_file.hpp"

namespace tessera::checkpoint {

struct TensorBytes {
  std::string dtype;  // the format's word: "F32", "BF16", "I64", ...
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;  // row-major, little-endian
};

// Bytes of one element of a dtype word; nothing for an unknown word.
std::optional<std::uint64_t> element_bytes(std::string_view dtype);

// The same without the bytes: where they begin in the data after the header.
struct TensorPlace {
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, bytes = 0;
};
struct SafetensorsLayout {
  std::map<std::string, TensorPlace> tensors;
  std::map<std::string, std::string> metadata;
};

// What the length and the header at the beginning of a file say; the data that follows need not be there.
SafetensorsLayout parse_safetensors_layout(const std::string& path, std::span<const std::byte> header);

struct SafetensorsContent {
  std::map<std::string, TensorBytes> tensors;
  std::map<std::string, std::string> metadata;
};

// What the bytes of a file say; its tensors are spans of them. Throws UserError naming the file and what is
// wrong in it.
SafetensorsContent parse_safetensors(const std::string& path, std::span<const std::byte> bytes);

class Safetensors {
 public:
  // Throws UserError as parse_safetensors.
  explicit Safetensors(const std::string& path) : Safetensors(MappedFile(path)) {}
  explicit Safetensors(const FolderFile& file) : Safetensors(MappedFile(file)) {}

  const std::string& path() const { return file_.path(); }
  std::span<const std::byte> bytes() const { return file_.bytes(); }
  // The bytes before the data.
  std::span<const std::byte> header() const;
  // The byte spans live as long as this object.
  const std::map<std::string, TensorBytes>& tensors() const { return content_.tensors; }
  const std::map<std::string, std::string>& metadata() const { return content_.metadata; }
  // Throws UserError with the nearest name when there is no such tensor.
  const TensorBytes& tensor(const std::string& name) const;

 private:
  explicit Safetensors(MappedFile file)
      : file_(std::move(file)), content_(parse_safetensors(file_.path(), file_.bytes())) {}

  MappedFile file_;
  SafetensorsContent content_;
};

// Writes beside `path` and renames, so that `path` holds the old file or the whole new one. Throws UserError
// when the disk refuses.
void write_safetensors(const std::string& path, const std::map<std::string, TensorBytes>& tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace tessera::checkpoint
