#include "tessera/base/files/folder_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tessera/base/complaint.hpp"
#include "tessera/base/files/mapped_file.hpp"
#include "tessera/base/files/random_access_file.hpp"
#include "tessera/base/text.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class FolderFiles : public testing::Test {
 protected:
  FolderFiles() : root_(cat(testing::TempDir(), "tessera_folder_file_", ::getpid())) {
    fs::remove_all(root_);
    fs::create_directories(root_ / "folder/inner");
    fs::create_directories(root_ / "outside");
    for (const char* name : {"folder/own", "folder/inner/own", "outside/secret"})
      std::ofstream(root_ / name) << "text";
    fs::create_symlink("../outside/secret", root_ / "folder/link");
    fs::create_symlink("../outside", root_ / "folder/door");
    fs::create_symlink("gone", root_ / "folder/dangling");
    fs::create_symlink("folder", root_ / "named");
  }
  ~FolderFiles() override { fs::remove_all(root_); }

  FolderFile file(const std::string& name, Links links = Links::refused) const {
    return {(root_ / "folder").string(), name, links};
  }
  static std::string text(const FolderFile& file) { return std::string(MappedFile(file).text()); }
  static std::string complaint(const FolderFile& file) {
    return complaint_of([&] { MappedFile(file).text(); });
  }

  fs::path root_;
};

TEST_F(FolderFiles, WhatLiesInTheFolderIsOpened) {
  EXPECT_EQ(text(file("own")), "text");
  EXPECT_EQ(text(file("inner/own")), "text");
  EXPECT_EQ(text({(root_ / "named").string(), "own"}), "text") << "the user named the link to the folder";
  EXPECT_EQ(RandomAccessFile(file("own")).bytes(), 4u);
}

TEST_F(FolderFiles, LinksAreRefusedByNameWithWhatAllowsThem) {
  EXPECT_THAT(complaint(file("link")), AllOf(HasSubstr("folder/link' is a link to '../outside/secret'"),
                                             HasSubstr("--follow-links allows it")));
  EXPECT_THAT(complaint(file("door/secret")), HasSubstr("folder/door' is a link to '../outside'"));
  EXPECT_THAT(complaint(file("dangling")), HasSubstr("folder/dangling' is a link to 'gone'"));
  EXPECT_THAT(complaint_of([&] { RandomAccessFile(file("link")).bytes(); }), HasSubstr("is a link to"));
}

TEST_F(FolderFiles, LinksAreFollowedWhenThatIsAllowed) {
  EXPECT_EQ(text(file("link", Links::followed)), "text");
  EXPECT_EQ(text(file("door/secret", Links::followed)), "text");
  EXPECT_THAT(complaint(file("dangling", Links::followed)), HasSubstr("No such file"));
}

TEST_F(FolderFiles, FoldersPipesAndMissingFilesAreNamed) {
  ASSERT_EQ(::mkfifo((root_ / "folder/pipe").c_str(), 0600), 0);
  EXPECT_THAT(complaint(file("pipe")), HasSubstr("folder/pipe': it is no regular file"));
  EXPECT_THAT(complaint(file("inner")), HasSubstr("Is a directory"));
  EXPECT_THAT(complaint(file("gone")), HasSubstr("folder/gone': No such file"));
  EXPECT_THAT(complaint(file("gone/own")), HasSubstr("folder/gone/own': No such file"));
  EXPECT_THAT(complaint({(root_ / "none").string(), "own"}), HasSubstr("none/own': No such file"));
}

}  // namespace
}  // namespace tessera
