// Writes one file of a checkpoint: made new, written from the front, synced, with its hashes beside it. All
// that saving asks of the operating system passes here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "tessera/base/error.hpp"
#include "tessera/base/files/descriptor.hpp"
#include "tessera/checkpoint/format/chunk_hash.hpp"

namespace tessera::checkpoint {

// The disk refused: saving may be tried again, and training goes on. The message names file, call and reason.
class DiskError : public UserError {
 public:
  using UserError::UserError;
};

inline constexpr char kHashesSuffix[] = ".hashes";

// What a manifest keeps of a file.
struct File {
  std::string name;  // below the checkpoint's folder, with '/'
  std::uint64_t bytes = 0;
  std::uint64_t hash = 0;  // of the content of <name>.hashes: one little-endian hash per chunk
  bool operator==(const File&) const = default;
};

// Throws DiskError. A file that is not finished is left as it is: it lies in a folder that is not whole yet.
class NewFile {
 public:
  // `folder`/`name` must not exist; folders between them are made.
  NewFile(const std::string& folder, const std::string& name);

  const std::string& path() const { return path_; }
  void append(std::span<const std::byte> bytes);
  // It is on the disk when it returns; its name is when the folder is synced.
  void finish();

 private:
  std::string path_;
  Descriptor file_;
  std::uint64_t bytes_ = 0, behind_ = 0;  // behind: those that the disk was told to take
};

// The same with its hashes beside it.
class FileWriter {
 public:
  FileWriter(const std::string& folder, const std::string& name) : name_(name), file_(folder, name) {}

  void append(std::span<const std::byte> bytes);
  // Both files are on the disk when it returns; their names are when the folder is synced.
  File finish();

 private:
  std::string name_;
  NewFile file_;
  ChunkHasher hasher_;
};

// A small file that must not exist, synced.
void write_new_file(const std::string& path, std::span<const std::byte> bytes);

// Names of a folder come to the disk with these.
void make_folder(const std::string& path);  // must not exist
void sync_folder(const std::string& path);
// `from` is called `to` from now on; a folder of that name is called `from`. At no instant is there none.
void replace_folder(const std::string& from, const std::string& to);

}  // namespace tessera::checkpoint
