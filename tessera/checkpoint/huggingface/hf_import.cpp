#include "tessera/checkpoint/huggingface/hf_import.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

#include "tessera/base/error.hpp"
#include "tessera/base/files/mapped_file.hpp"
#include "tessera/checkpoint/folder/folder.hpp"
#include "tessera/checkpoint/format/names.hpp"
#include "tessera/checkpoint/format/shard_file.hpp"

namespace tessera::checkpoint {

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kReadBytes = 8 << 20;

// A parameter, and where it lies.
struct FoundTensor {
  const Wanted* parameter;
  foreign::ForeignPlace place;
  const TensorBytes* tensor;            // the first one of a stack
  std::vector<std::string> stack = {};  // all of its names
  std::uint64_t element() const { return element_bytes(tensor->dtype).value(); }
};

class Import {
 public:
  Import(const TensorFiles& files, std::span<const FoundTensor> found, const std::string& folder,
         const Told& told)
      : files_(files), folder_(folder), told_(told) {
    for (const FoundTensor& each : found) {
      used_.insert(each.place.tensor);
      used_.insert(each.stack.begin(), each.stack.end());
    }
    for (const auto& file : files.files()) all_ += file->bytes().size();
  }

  // Parameters whose tensors lie in this file, in the order of their bytes there; wide elements first.
  void add_file(const Safetensors& file, const std::vector<FoundTensor>& found) {
    std::vector<HeaderEntry> entries;
    for (const FoundTensor& each : found)
      entries.push_back({each.parameter->name, each.tensor->dtype, whole_box(each.parameter->shape)});
    const std::string header = shard_header(entries);
    FileWriter writer(folder_, cat("model-", padded(++num_files_, 5), ".safetensors"));
    writer.append(std::as_bytes(std::span(header)));
    std::uint64_t at = header.size();
    for (std::size_t i = 0; i < found.size(); ++i) {
      const FoundTensor& each = found[i];
      manifest.tensors[each.parameter->name] = {each.tensor->dtype, each.parameter->shape};
      manifest.pieces.push_back(
          {each.parameter->name, entries[i].box, static_cast<std::uint32_t>(manifest.files.size()), at});
      at += append(each, writer);
    }
    manifest.files.push_back(writer.finish());
    attach_rest(file);
  }

  // A file as it is.
  void attach(const std::string& name, std::span<const std::byte> bytes) {
    FileWriter writer(folder_, name);
    writer.append(bytes);
    manifest.files.push_back(writer.finish());
  }

  Manifest manifest;
  std::uint64_t parameter_bytes = 0;

 private:
  std::uint64_t append(const FoundTensor& found, FileWriter& writer) {
    const std::uint64_t bytes =
        static_cast<std::uint64_t>(num_elements(found.parameter->shape)) * found.element();
    if (found.place.transposed) {
      append_transposed(found, writer);
    } else if (!found.stack.empty()) {
      for (const std::string& tensor : found.stack) append_bytes(files_.tensor(tensor).bytes, writer);
    } else {
      append_bytes(found.tensor->bytes.subspan(static_cast<std::uint64_t>(found.place.part) * bytes, bytes),
                   writer);
    }
    parameter_bytes += bytes;
    return bytes;
  }

  void append_bytes(std::span<const std::byte> bytes, FileWriter& writer) {
    for (std::uint64_t done = 0; done < bytes.size(); done += kReadBytes) {
      const std::uint64_t count = std::min<std::uint64_t>(kReadBytes, bytes.size() - done);
      writer.append(bytes.subspan(done, count));
      tell(count);
    }
  }

  // Rows of ours are columns there, a third of them where three lie side by side.
  void append_transposed(const FoundTensor& found, FileWriter& writer) {
    const auto rows = static_cast<std::uint64_t>(found.parameter->shape.at(0)),
               columns = static_cast<std::uint64_t>(found.parameter->shape.at(1));
    const std::uint64_t element = found.element(),
                        stride = rows * static_cast<std::uint64_t>(found.place.parts),
                        first = rows * static_cast<std::uint64_t>(found.place.part);
    const std::uint64_t most = std::max<std::uint64_t>(1, kReadBytes / (columns * element));
    std::vector<std::byte> block;
    for (std::uint64_t row = 0; row < rows; row += most) {
      const std::uint64_t count = std::min(most, rows - row);
      block.resize(count * columns * element);
      for (std::uint64_t column = 0; column < columns; ++column) {
        const std::byte* from = found.tensor->bytes.data() + (column * stride + first + row) * element;
        for (std::uint64_t i = 0; i < count; ++i)
          std::memcpy(block.data() + (i * columns + column) * element, from + i * element, element);
      }
      writer.append(block);
      tell(block.size());
    }
  }

  void attach_rest(const Safetensors& file) {
    const std::string name = kHeaderPrefix + fs::path(file.path()).filename().string();
    attach(name + kHeaderSuffix, file.header());
    std::vector<std::span<const std::byte>> surplus;
    for (const auto& [tensor, held] : file.tensors())
      if (!used_.contains(tensor)) surplus.push_back(held.bytes);
    if (surplus.empty()) return;
    std::ranges::sort(surplus, {}, [](const auto& bytes) { return bytes.data(); });
    FileWriter writer(folder_, name + kSurplusSuffix);
    for (const auto& bytes : surplus) {
      writer.append(bytes);
      tell(bytes.size());
    }
    manifest.files.push_back(writer.finish());
  }

  void tell(std::uint64_t bytes) {
    done_ += bytes;
    if (told_) told_(done_, all_);
  }

  const TensorFiles& files_;
  std::set<std::string> used_;  // tensors that parameters are made of
  std::string folder_;
  const Told& told_;
  std::uint64_t done_ = 0, all_ = 0;
  int num_files_ = 0;
};

std::vector<FoundTensor> found_in(const TensorFiles& files, std::span<const Wanted> parameters) {
  std::vector<FoundTensor> out;
  for (const Wanted& parameter : parameters) {
    if (auto stack = stack_of(parameter, files)) {
      const std::string first = stack->front();
      out.push_back({&parameter, {.tensor = first}, &files.tensor(first), std::move(*stack)});
    } else {
      foreign::ForeignPlace place = place_of(parameter.name, files);
      const TensorBytes& tensor = files.tensor(place.tensor);
      out.push_back({&parameter, std::move(place), &tensor});
    }
  }
  std::ranges::sort(out, {},
                    [](const FoundTensor& f) { return std::pair(f.tensor->bytes.data(), f.place.part); });
  std::ranges::stable_sort(out, std::greater(), &FoundTensor::element);
  return out;
}

void attach_files(const std::string& folder, const TensorFiles& files, Links links, Import& import,
                  ImportSummary& summary) {
  std::set<std::string> weights;
  for (const auto& file : files.files()) weights.insert(fs::path(file->path()).filename().string());
  std::vector<std::string> others;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    expect_no_link(entry.path().string(), links);
    if (entry.is_directory())
      summary.left_out.push_back(name);
    else if (!weights.contains(name))
      others.push_back(name);
  }
  std::ranges::sort(others);
  for (const auto& name : others)
    import.attach(kAttachedPrefix + name, MappedFile(FolderFile{folder, name, links}).bytes());
  summary.num_files = others.size();
}

}  // namespace

ImportSummary import_folder(const std::string& from, const std::string& to,
                            std::span<const Wanted> parameters, const std::string& version, const Told& told,
                            Links links) {
  const TensorFiles files(from, links);
  check_fits(files, parameters);
  NewFolder folder(to);
  ImportSummary summary;
  const std::vector<FoundTensor> found = found_in(files, parameters);
  Import import(files, found, folder.path(), told);
  import.manifest.written_by = version;
  for (const auto& file : files.files()) {
    std::vector<FoundTensor> held;
    std::ranges::copy_if(found, std::back_inserter(held), [&](const FoundTensor& each) {
      return file->tensors().contains(each.place.tensor);
    });
    import.add_file(*file, held);
  }
  attach_files(from, files, links, import, summary);
  folder.commit(import.manifest);
  summary.num_tensors = parameters.size();
  summary.bytes = import.parameter_bytes;
  return summary;
}

}  // namespace tessera::checkpoint
