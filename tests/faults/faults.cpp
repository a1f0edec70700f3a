// Does the library of faults strike where it is told? A child makes ten calls in a folder and says how each
// ended, under every kind of fault; each answer is compared with what a disk would have given.
//   faults LIBRARY
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>

#include "tessera/base/error.hpp"
#include "tessera/base/files/file_text.hpp"

namespace {

using namespace tessera;
namespace fs = std::filesystem;

std::string word(long result) {
  return result >= 0       ? cat(result)
         : errno == ENOSPC ? "ENOSPC"
         : errno == EIO    ? "EIO"
         : errno == EFBIG  ? "EFBIG"
                           : "other";
}

// The calls, in this order: 1 mkdir, 2 open, 3 write, 4 pwrite, 5 write, 6 fsync, 7 close, 8 rename, 9 fsync
// of the folder, (its close) 10, 11 unlink. Each result is written to `told` at once, so that a kill loses
// none.
void make_calls(const std::string& folder, int told) {
  const auto tell = [&](long result) {
    const std::string text = word(result) + " ";
    TESSERA_CHECK(write(told, text.data(), text.size()) > 0, "cannot tell");
  };
  const std::string x = folder + "/new/x", y = folder + "/new/y", eight = "12345678";
  tell(mkdir((folder + "/new").c_str(), 0755));
  const int file = open(x.c_str(), O_CREAT | O_EXCL | O_WRONLY, 0644);
  tell(file < 0 ? -1 : 0);
  tell(write(file, eight.data(), eight.size()));
  tell(pwrite(file, eight.data(), 4, 100));
  tell(write(file, eight.data(), 2));
  tell(fsync(file));
  tell(close(file));
  tell(rename(x.c_str(), y.c_str()));
  const int parent = open(folder.c_str(), O_RDONLY | O_DIRECTORY);
  tell(fsync(parent));
  close(parent);
  tell(unlink(y.c_str()));
  std::ofstream(folder + "/stream") << "text";
}

struct Case {
  std::string does;
  int at;
  std::string told;
  int signal = 0;
};

const Case kCases[] = {
    {"", 0, "0 0 8 4 2 0 0 0 0 0 "},
    {"enospc", 1, "ENOSPC other other other other other other other 0 other "},
    {"enospc", 2, "0 ENOSPC other other other other other other 0 other "},
    {"enospc", 3, "0 0 ENOSPC 4 2 0 0 0 0 0 "},
    {"efbig", 5, "0 0 8 4 EFBIG 0 0 0 0 0 "},
    {"eio", 6, "0 0 8 4 2 EIO 0 0 0 0 "},
    {"eio", 7, "0 0 8 4 2 0 EIO 0 0 0 "},
    {"eio", 8, "0 0 8 4 2 0 0 EIO 0 other "},
    {"eio", 9, "0 0 8 4 2 0 0 0 EIO 0 "},
    {"eio", 11, "0 0 8 4 2 0 0 0 0 EIO "},
    {"short", 3, "0 0 4 ENOSPC 2 0 0 0 0 0 "},
    {"short", 4, "0 0 8 2 ENOSPC 0 0 0 0 0 "},
    {"short", 6, "0 0 8 4 2 0 0 0 0 0 "},
    {"full", 4, "0 0 8 ENOSPC ENOSPC ENOSPC 0 ENOSPC ENOSPC other "},
    {"kill-before", 8, "0 0 8 4 2 0 0 ", SIGKILL},
    {"kill-after", 8, "0 0 8 4 2 0 0 ", SIGKILL},
};

struct Answer {
  std::string told;
  int signal = 0;
};

Answer run(const Case& c, const std::string& self, const std::string& library, const fs::path& folder) {
  fs::remove_all(folder);
  fs::create_directories(folder / "files");
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    setenv("LD_PRELOAD", library.c_str(), 1);
    setenv("TESSERA_RANK", "3", 1);
    setenv("TESSERA_FAULT_WHERE", c.told.empty() ? "TESSERA_RANK=4" : "TESSERA_RANK=3", 1);
    setenv("TESSERA_FAULT_FOLDER", (folder / "files").c_str(), 1);
    setenv("TESSERA_FAULT_FROM", "files/new", 1);
    setenv("TESSERA_FAULT_AT", cat(c.at).c_str(), 1);
    setenv("TESSERA_FAULT_DOES", c.does.c_str(), 1);
    setenv("TESSERA_FAULT_REPORT", (folder / "report").c_str(), 1);
    execl(self.c_str(), self.c_str(), "--calls", (folder / "files").c_str(), (folder / "told").c_str(),
          nullptr);
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return {file_text(folder / "told"), WIFSIGNALED(status) ? WTERMSIG(status) : 0};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 4) return make_calls(argv[2], open(argv[3], O_CREAT | O_WRONLY, 0644)), 0;
  if (argc != 2) return std::puts("usage: faults LIBRARY"), 2;
  std::string folder = (fs::temp_directory_path() / "faults_XXXXXX").string();
  TESSERA_CHECK(mkdtemp(folder.data()), "no folder");
  const fs::path files = fs::path(folder) / "run";
  const std::string self = fs::read_symlink("/proc/self/exe").string();
  int wrong = 0;
  const auto expect = [&](bool right, const std::string& what) {
    if (!right) std::printf("wrong: %s\n", what.c_str());
    wrong += !right;
  };
  for (const Case& c : kCases) {
    const Answer answer = run(c, self, argv[1], files);
    expect(answer.told == c.told && answer.signal == c.signal,
           cat("'", c.does, "' at ", c.at, ": ", answer.told, "(signal ", answer.signal, ")"));
    if (c.does == "kill-before") expect(fs::exists(files / "files/new/x"), "killed before the rename");
    if (c.does == "kill-after") expect(fs::exists(files / "files/new/y"), "killed after the rename");
  }
  run(kCases[0], self, argv[1], files);
  const std::string at = (files / "files").string();
  std::string report;
  for (const char* line :
       {"1 mkdir /new", "2 open /new/x", "3 write /new/x", "4 pwrite /new/x", "5 write /new/x",
        "6 fsync /new/x", "7 close /new/x", "8 rename /new/y", "9 fsync ", "10 close ", "11 unlink /new/y",
        "12 open /stream", "13 write /stream"})
    report += cat("3 ", std::string(line).insert(std::string(line).rfind(' ') + 1, at), "\n");
  expect(file_text(files / "report") == report, "the report: " + file_text(files / "report"));
  run({"eio", 3, "", 0}, self, argv[1], files);
  expect(file_text(files / "report").empty() && file_text(files / "told") == kCases[0].told,
         "a process elsewhere is left alone");
  fs::remove_all(folder);
  std::printf("%zu faults, %d wrong\n", std::size(kCases), wrong);
  return wrong == 0 ? 0 : 1;
}
