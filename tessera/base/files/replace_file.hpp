// Replaces a file so that no reader, and no crash, ever sees half of it: written beside, synced, renamed.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace tessera {

// What the file is called while it is written: `path`, this and a number.
inline constexpr char kBesideSuffix[] = ".tmp";

// The new content of `path` is the parts, one after the other. Throws UserError when the disk refuses; the
// old file then stays.
void replace_file(const std::string& path, std::span<const std::span<const std::byte>> parts);

// The same; returns 0, or the error number of what failed.
int try_replace_file(const std::string& path, std::span<const std::span<const std::byte>> parts);

// Makes the folders that the file is to lie in, before long work for it begins. Throws UserError when the
// disk refuses.
void make_folder_of(const std::string& path);

}  // namespace tessera
