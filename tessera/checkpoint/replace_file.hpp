// How is a file replaced so that no reader, and no crash, ever sees half of it? Written beside, synced,
// renamed.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace tessera::checkpoint {

// The new content of `path` is the parts, one after the other. Throws UserError when the disk refuses; the
// old file then stays.
void replace_file(const std::string& path, std::span<const std::span<const std::byte>> parts);

}  // namespace tessera::checkpoint
