// A file of a folder that somebody else may have made. Opening it opens nothing outside of that folder:
// links, which can point anywhere, are refused unless whoever named the folder allows them.
#pragma once

#include <string>

namespace tessera {

enum class Links { refused, followed };

struct FolderFile {
  std::string folder;
  std::string name;  // below the folder, with '/'
  Links links = Links::refused;
  std::string path() const { return folder + "/" + name; }
};

// A descriptor for reading, which the caller closes. Throws UserError naming the file when it can't be
// opened, is reached by a link that is refused, or is no regular file: a pipe would be waited for.
int open_to_read(const FolderFile& file);
// The same of a path that the user named: its links are followed.
int open_to_read(const std::string& path);

// Throws UserError, with what allows it, if the path is a link and links are refused.
void expect_no_link(const std::string& path, Links links);

}  // namespace tessera
