#include "tessera/spec/entries.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <system_error>
#include <utility>

#include "tessera/base/error.hpp"

namespace tessera::spec {

namespace {

namespace fs = std::filesystem;

fs::path identity(const fs::path& path) {
  std::error_code ignored;
  return fs::weakly_canonical(path, ignored);
}

// Keys of files that are read.
constexpr std::array<std::string_view, 6> kPaths = {
    "data.path",     "evaluation.path",      "data.tokenizer",
    "model.weights", "layout.schedule_file", "cluster.key_file"};
constexpr std::string_view kPairs = "data.sources";

// A path is looked for beside the file that names it; where there is none it stays as it is, from the working
// folder.
void look_beside(Entry& entry, const std::string& file) {
  const std::string key = cat(entry.section, ".", entry.name);
  const bool is_list = key == kPairs;
  const auto* path = entry.value ? std::get_if<std::string>(&*entry.value) : nullptr;
  if (!path || path->empty() || (!is_list && std::ranges::count(kPaths, key) == 0)) return;
  const auto found = [&](const std::string& named) {
    std::error_code ignored;
    const fs::path beside = (fs::path(file).parent_path() / named).lexically_normal();
    const bool is_there = fs::exists(is_list ? beside.string() + ".idx" : beside.string(), ignored);
    return is_there && !fs::path(named).is_absolute() ? beside.string() : named;
  };
  if (!is_list) {
    entry.value = found(*path);
    return;
  }
  std::vector<std::string> names = split_list(*path);
  for (std::string& name : names) name = found(name);
  entry.value = join(names, ",");
}

// Reads a run file and what it includes, within bounds: files that include others twice each would double
// without end.
class Collector {
 public:
  std::vector<Entry> of_file(const fs::path& path) {
    trail_ = {identity(path)};
    may_include_ = true;
    collect(contents(path, ""), path.string());
    return std::move(out_);
  }
  std::vector<Entry> of_text(std::string_view text, const std::string& name) {
    collect(text, name);
    return std::move(out_);
  }

 private:
  static constexpr std::size_t kMostBytes = 1 << 20;
  static constexpr int kMostFiles = 64;

  // Of the file, as far as it may be read.
  static std::string contents(const fs::path& path, const std::string& asked_by) {
    std::ifstream file(path, std::ios::binary);
    std::error_code ignored;
    std::string out(kMostBytes + 1, '\0');
    const bool opened = file && !fs::is_directory(path, ignored);
    if (opened) file.read(out.data(), static_cast<std::streamsize>(out.size()));
    if (!opened || file.bad())
      throw UserError(cat(asked_by, "cannot read the run file ", path.string(), "; is the path right?"));
    out.resize(static_cast<std::size_t>(file.gcount()));
    return out;
  }

  void count(std::size_t bytes, const std::string& name) {
    bytes_ += bytes;
    if (bytes_ > kMostBytes)
      throw UserError(cat(name, ": a run file and what it includes may have ", kMostBytes,
                          " bytes in all, and this has more; is it another kind of file?"));
  }

  void collect_include(const std::string& file, const Entry& by, const std::string& includer) {
    if (!may_include_)
      throw UserError(
          cat(by.where, ": include of ", file, ": a run file that is kept in another file includes nothing"));
    const fs::path path = fs::path(includer).parent_path() / file;
    const fs::path canonical = identity(path);
    if (std::find(trail_.begin(), trail_.end(), canonical) != trail_.end())
      throw UserError(
          cat(by.where, ": include of ", file, " makes a circle: that file is being read already"));
    if (++num_files_ > kMostFiles)
      throw UserError(
          cat(by.where, ": include of ", file, ": more than ", kMostFiles,
              " files are included; one that is included twice counts twice, with all that it includes"));
    trail_.push_back(canonical);
    collect(contents(path, cat(by.where, ": include: ")), path.string());
    trail_.pop_back();
  }

  void collect(std::string_view text, const std::string& name) {
    count(text.size(), name);
    auto entries = read_toml(text, name);
    const auto own = std::stable_partition(entries.begin(), entries.end(), [](const Entry& entry) {
      return entry.section.empty() && entry.name == "include";
    });
    for (auto entry = entries.begin(); entry != own; ++entry) {
      auto files = entry->list;
      if (entry->value && std::holds_alternative<std::string>(*entry->value))
        files = {std::get<std::string>(*entry->value)};
      if (files.empty())
        throw UserError(
            cat(entry->where, ": include = ", entry->found, ": wants a file name or a list of them"));
      for (const auto& file : files) collect_include(file, *entry, name);
    }
    if (may_include_)
      for (auto entry = own; entry != entries.end(); ++entry) look_beside(*entry, name);
    std::move(own, entries.end(), std::back_inserter(out_));
  }

  std::vector<fs::path>
      trail_;  // from the first file to the one being read: one among its own includers is a circle
  std::vector<Entry> out_;
  bool may_include_ = false;
  int num_files_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace

std::vector<Entry> entries_of_file(const fs::path& path) { return Collector().of_file(path); }

std::vector<Entry> entries_of_text(std::string_view text, const std::string& name) {
  return Collector().of_text(text, name);
}

}  // namespace tessera::spec
