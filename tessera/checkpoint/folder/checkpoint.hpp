// A saved checkpoint: what it holds, and the elements of any box of its tensors.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "tessera/checkpoint/format/chunked_file.hpp"
#include "tessera/checkpoint/format/manifest.hpp"

namespace tessera::checkpoint {

// Given bytes done and bytes in all, now and then.
using Told = std::function<void(std::uint64_t, std::uint64_t)>;

// Memory: the manifest, and one chunk for each of a few open files. One caller at a time.
class Checkpoint {
 public:
  // Throws UserError naming the file and what is wrong: manifest, or a file that is missing or has another
  // size.
  explicit Checkpoint(std::string folder, Links links = Links::refused);

  const std::string& folder() const { return folder_; }
  const Manifest& manifest() const { return manifest_; }
  bool has(const std::string& tensor) const { return manifest_.tensors.contains(tensor); }
  // Throws UserError with the nearest name.
  const Tensor& tensor(const std::string& name) const;
  // The box's elements, row-major, in the stored dtype; `out` has as many bytes.
  void read(const std::string& tensor, const Box& box, std::span<std::byte> out);
  // Of a file of the manifest.
  ChunkedFile& file(std::uint32_t index);
  // Reads every chunk of every file. All that is wrong, each as a sentence that names the file.
  std::vector<std::string> problems(const Told& told = nullptr) const;

 private:
  std::string folder_;
  Links links_;
  Manifest manifest_;
  std::map<std::string, std::vector<std::uint32_t>, std::less<>> pieces_;  // by tensor
  std::map<std::uint32_t, std::unique_ptr<ChunkedFile>> open_;
  std::vector<std::uint32_t> order_;  // of opening
};

// The same of a folder that may not even open: a manifest or files that are damaged, cut off or missing.
std::vector<std::string> problems_of(const std::string& folder, const Told& told = nullptr,
                                     Links links = Links::refused);

}  // namespace tessera::checkpoint
