#include "tessera/checkpoint/folder/folder.hpp"

#include <fcntl.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <random>

#include "tessera/base/files/file_text.hpp"
#include "tessera/checkpoint/format/chunked_file.hpp"
#include "tessera/checkpoint/format/names.hpp"

namespace tessera::checkpoint {

namespace {

namespace fs = std::filesystem;

// Not kSaving: a run that saves beside it removes those.
constexpr std::string_view kPrefix = "step-", kSaving = ".saving", kRemoving = ".removing",
                           kWriting = ".writing";
constexpr std::size_t kDigits = 8;

std::string part_name(std::int64_t rank) { return cat("part-", padded(rank, 5), ".json"); }

// Of "step-00000120"; nothing for any other name.
std::optional<std::int64_t> step_of(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  if (error != std::errc() || end != name.data() + name.size() || name != padded(step, kDigits))
    return std::nullopt;
  return step;
}

bool exists(const std::string& path) {
  std::error_code error;
  const auto status = fs::symlink_status(path, error);
  if (status.type() == fs::file_type::none)
    throw DiskError(cat("cannot look at '", path, "': ", error.message()));
  return fs::exists(status);
}

void remove_all(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) throw DiskError(cat("cannot remove '", path, "': ", error.message()));
}

void remove_file(const std::string& path) {
  std::error_code error;
  fs::remove(path, error);
  if (error) throw DiskError(cat("cannot remove '", path, "': ", error.message()));
}

// Under another name first: what is removed is what was found, even if another job puts something into its
// place, or commits it. Then the manifest: what is half removed is no checkpoint any more.
void remove_checkpoint(const std::string& path) {
  const std::string taken = cat(path, kRemoving, "-", hash_text(new_save_id()));
  std::error_code error;
  fs::rename(path, taken, error);
  if (error == std::errc::no_such_file_or_directory) return;  // another job was faster
  if (error) throw DiskError(cat("cannot rename '", path, "' to remove it: ", error.message()));
  remove_file(cat(taken, "/", kManifestName));
  sync_folder(taken);
  remove_all(taken);
}

// Whether this is a name that a save or a removal gives until it ends.
bool is_unfinished(const std::string& name) {
  const auto end = name.find('.');
  if (end == name.npos || !step_of(name.substr(0, end))) return false;
  const auto rest = std::string_view(name).substr(end);
  return rest.starts_with(kSaving) || rest.starts_with(kRemoving);
}

// All files of `written` are on the disk before it bears the name.
void rename_whole(const std::string& written, const std::string& target) {
  // What it throws must be a DiskError: a save that fails does not end the training.
  std::error_code error;
  for (fs::recursive_directory_iterator entry(written, error), end; !error && entry != end;
       entry.increment(error))
    if (entry->is_directory(error)) sync_folder(entry->path().string());
  if (error) throw DiskError(cat("cannot list folder '", written, "': ", error.message()));
  sync_folder(written);
  replace_folder(written, target);
  const auto above = fs::path(target).parent_path();
  sync_folder(above.empty() ? "." : above.string());
}

void write_manifest(const std::string& folder, const Manifest& manifest) {
  const std::string text = to_text(manifest), path = cat(folder, "/", kManifestName);
  write_new_file(path, std::as_bytes(std::span(text)));
  parse_manifest(text, path);  // what could not be read again is not committed
}

}  // namespace

std::vector<StepFolder> step_folders(const std::string& folder) {
  std::vector<StepFolder> out;
  std::error_code error;
  for (auto entry = fs::directory_iterator(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error))
    if (const auto step = step_of(entry->path().filename().string()))
      out.push_back({*step, entry->path().string()});
  std::ranges::sort(out, std::greater(), &StepFolder::step);
  return out;
}

StepFolder step_folder(const std::string& folder, std::int64_t step) {
  return {step, cat(folder, "/", kPrefix, padded(step, kDigits))};
}

std::int64_t newest_step(const std::string& folder) {
  for (const StepFolder& each : step_folders(folder))
    if (is_checkpoint(each.path)) return each.step;
  return 0;
}

bool is_checkpoint(const std::string& folder) {
  std::error_code error;
  return fs::exists(cat(folder, "/", kManifestName), error);
}

std::uint64_t new_save_id() {
  constexpr std::uint64_t kExact = std::uint64_t{1} << 53;
  std::random_device device;
  const std::uint64_t bits = std::uint64_t{device()} << 32 | device();
  return 1 + bits % (kExact - 1);
}

std::string saving_path(const Save& save) {
  return cat(step_folder(save.folder, save.step).path, kSaving, "-", hash_text(save.id));
}

void begin_save(const Save& save) {
  std::error_code error;
  fs::create_directories(save.folder, error);
  if (error) throw DiskError(cat("cannot make folder '", save.folder, "': ", error.message()));
  make_folder(saving_path(save));
}

void write_part(const std::string& saving_path, std::int64_t rank, const Manifest& part) {
  const std::string text = to_text(part);
  write_new_file(cat(saving_path, "/", part_name(rank)), std::as_bytes(std::span(text)));
}

void commit_save(const Save& save, std::int64_t num_ranks) {
  const std::string saving = saving_path(save);
  std::vector<Manifest> parts;
  for (std::int64_t rank = 0; rank < num_ranks; ++rank) {
    const std::string path = cat(saving, "/", part_name(rank));
    parts.push_back(parse_part(file_text(path), path));
  }
  const Manifest manifest = merged(parts);
  write_manifest(saving, manifest);
  for (std::int64_t rank = 0; rank < num_ranks; ++rank) remove_file(cat(saving, "/", part_name(rank)));
  for (const File& file : manifest.files)
    ChunkedFile(saving, file);  // opens what was written, and nothing else
  rename_whole(saving, step_folder(save.folder, save.step).path);
  if (exists(saving)) remove_checkpoint(saving);  // the one that was replaced
}

void abandon_save(const Save& save) { remove_all(saving_path(save)); }

void remove_unfinished(const std::string& folder) {
  std::vector<std::string> left;
  std::error_code error;
  for (auto entry = fs::directory_iterator(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error))
    if (is_unfinished(entry->path().filename().string())) left.push_back(entry->path().string());
  for (const std::string& path : left) remove_checkpoint(path);
}

NewFolder::NewFolder(const std::string& target)
    : target_(target.substr(0, target.find_last_not_of('/') + 1)), path_(cat(target_, kWriting)) {
  if (target_.empty() || exists(target_))
    throw UserError(cat("'", target, "' exists; name a folder that does not, or remove it"));
  const fs::path above = fs::path(target_).parent_path();
  std::error_code error;
  if (!above.empty()) fs::create_directories(above, error);
  if (error) throw DiskError(cat("cannot make folder '", above.string(), "': ", error.message()));
  remove_all(path_);  // of a writing that was ended from outside
  make_folder(path_);
}

NewFolder::~NewFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void NewFolder::commit(const Manifest& manifest) {
  write_manifest(path_, manifest);
  commit();
}

void NewFolder::commit() { rename_whole(path_, target_); }

void remove_old(const std::string& folder, const Keep& keep, std::int64_t saved_step) {
  if (keep.last == 0) return;
  auto found = step_folders(folder);
  std::erase_if(found, [&](const StepFolder& each) { return each.step > saved_step; });
  found.erase(found.begin(), found.begin() + std::min<std::ptrdiff_t>(keep.last, std::ssize(found)));
  for (auto old = found.rbegin(); old != found.rend(); ++old)
    if (keep.every == 0 || old->step % keep.every != 0) remove_checkpoint(old->path);
}

}  // namespace tessera::checkpoint
