#include "tessera/checkpoint/tools/summary.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <set>

#include "tessera/base/complaint.hpp"
#include "tessera/checkpoint/folder/checkpoint.hpp"
#include "tessera/checkpoint/format/names.hpp"

namespace tessera::checkpoint {

namespace {

constexpr std::string_view kDigits = "0123456789";

// A name as its parts between numbers, and the numbers: "layers.", ".mlp" and {3} of "layers.3.mlp". Only
// whole words between dots count.
struct Numbered {
  std::vector<std::string> between;
  std::vector<std::int64_t> numbers;
};

Numbered numbered(const std::string& name) {
  Numbered out{{""}, {}};
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    const std::string word = name.substr(begin, end - begin);
    const bool is_number = !word.empty() && word.size() < 10 && word.find_first_not_of(kDigits) == word.npos;
    if (begin > 0) out.between.back() += ".";
    if (is_number) {
      out.numbers.push_back(std::stoll(word));
      out.between.emplace_back();
    } else {
      out.between.back() += word;
    }
    begin = end + 1;
  }
  return out;
}

// Sorts layer 9 before layer 10.
std::string sort_key(const std::string& name) {
  const Numbered parts = numbered(name);
  std::string out = parts.between.front();
  for (std::size_t i = 0; i < parts.numbers.size(); ++i) {
    const std::string number = cat(parts.numbers[i]);
    out += std::string(10 - number.size(), '0') + number + parts.between[i + 1];
  }
  return out;
}

// "3", "{0-31}" or "{0-2,5}".
std::string range_text(const std::set<std::int64_t>& numbers) {
  if (numbers.size() == 1) return cat(*numbers.begin());
  std::vector<std::string> parts;
  for (auto first = numbers.begin(); first != numbers.end();) {
    auto last = first, next = std::next(first);
    while (next != numbers.end() && *next == *last + 1) last = next++;
    parts.push_back(first == last ? cat(*first) : cat(*first, "-", *last));
    first = next;
  }
  return cat("{", join(parts, ","), "}");
}

// Those of one form, and what their numbers are at each place.
struct Gathered {
  TensorGroup group;
  std::vector<std::set<std::int64_t>> numbers;
};

}  // namespace

std::vector<KindSize> sizes_by_kind(const Manifest& manifest) {
  std::vector<KindSize> out = {{"parameters"}};
  for (const auto& [name, tensor] : manifest.tensors) {
    const std::string kind = kind_of(name);
    auto found = std::ranges::find(out, kind, &KindSize::kind);
    if (found == out.end()) found = out.insert(out.end(), {kind});
    ++found->tensors;
    found->elements += num_elements(tensor.shape);
    found->bytes += bytes_of(tensor);
  }
  KindSize attached{"attached files"};
  const auto pieces = pieces_by_file(manifest);
  for (std::size_t i = 0; i < pieces.size(); ++i)
    if (pieces[i] == 0) attached.bytes += manifest.files[i].bytes;
  if (attached.bytes > 0) out.push_back(attached);
  return out;
}

std::vector<TensorGroup> tensor_groups(const Manifest& manifest, bool grouped) {
  std::map<std::string, std::int64_t> pieces;
  for (const Piece& piece : manifest.pieces) ++pieces[piece.tensor];
  std::map<std::string, std::uint64_t> state_bytes;
  for (const auto& [name, tensor] : manifest.tensors)
    if (!is_parameter(name)) state_bytes[parameter_of(name)] += bytes_of(tensor);
  std::vector<std::string> names;
  for (const auto& [name, tensor] : manifest.tensors)
    if (!grouped || is_parameter(name)) names.push_back(name);
  std::ranges::sort(names, {}, sort_key);

  std::vector<Gathered> gathered;
  std::map<std::tuple<std::vector<std::string>, std::string, Shape>, std::size_t> place;
  for (const std::string& name : names) {
    const Tensor& tensor = manifest.tensors.at(name);
    const Numbered parts = grouped ? numbered(name) : Numbered{{name}, {}};
    const auto [at, is_new] = place.try_emplace({parts.between, tensor.dtype, tensor.shape}, gathered.size());
    if (is_new) gathered.push_back({{"", tensor}, std::vector<std::set<std::int64_t>>(parts.numbers.size())});
    auto& [group, numbers] = gathered[at->second];
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i].insert(parts.numbers[i]);
    ++group.count;
    group.pieces += pieces[name];
    group.bytes += bytes_of(tensor);
    if (is_parameter(name)) group.state_bytes += state_bytes[name];
    group.name = parts.between.front();
    for (std::size_t i = 0; i < numbers.size(); ++i)
      group.name += range_text(numbers[i]) + parts.between[i + 1];
  }
  std::vector<TensorGroup> out;
  for (Gathered& each : gathered) out.push_back(std::move(each.group));
  return out;
}

std::vector<std::int64_t> pieces_by_file(const Manifest& manifest) {
  std::vector<std::int64_t> out(manifest.files.size());
  for (const Piece& piece : manifest.pieces) ++out[piece.file];
  return out;
}

std::int64_t num_ranks(const Manifest& manifest) {
  std::set<std::string> ranks;  // "rank-00003" of "rank-00003-2.safetensors"
  const auto pieces = pieces_by_file(manifest);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const std::string& name = manifest.files[i].name;
    if (pieces[i] > 0) ranks.insert(name.substr(0, name.find_first_of("-.", name.find('-') + 1)));
  }
  return std::ssize(ranks);
}

std::uint64_t total_bytes(const Manifest& manifest) {
  std::uint64_t out = 0;
  for (const File& file : manifest.files) out += file.bytes;
  return out;
}

std::vector<ListedCheckpoint> listed_checkpoints(const std::string& folder) {
  auto found = step_folders(folder);
  if (found.empty()) found = step_folders(folder + "/checkpoints");
  std::vector<ListedCheckpoint> out;
  for (StepFolder& each : found) {
    ListedCheckpoint listed{.folder = std::move(each)};
    listed.problem = complaint_of([&] {
      const Checkpoint checkpoint(listed.folder.path);
      listed.bytes = total_bytes(checkpoint.manifest());
      listed.num_ranks = num_ranks(checkpoint.manifest());
    });
    struct stat about {};
    if (::stat(cat(listed.folder.path, "/", kManifestName).c_str(), &about) == 0)
      listed.unix_seconds = about.st_mtime;
    out.push_back(std::move(listed));
  }
  return out;
}

}  // namespace tessera::checkpoint
