#include "tessera/checkpoint/folder/checkpoint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>

#include "tessera/base/complaint.hpp"
#include "tessera/checkpoint/folder/folder.hpp"
#include "tessera/checkpoint/format/shard_file.hpp"

namespace tessera::checkpoint {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Checkpoints : public ::testing::Test {
 protected:
  Checkpoints() { std::filesystem::remove_all(folder_); }
  ~Checkpoints() override { std::filesystem::remove_all(folder_); }

  // A tensor [64, 100] of which each of four ranks holds a range of elements, and a vector that rank 3 holds.
  void save(std::int64_t step, float first) {
    std::vector<float> matrix(6400), vector(7, static_cast<float>(step));
    std::iota(matrix.begin(), matrix.end(), first);
    const Save save{folder_, step, new_save_id()};
    begin_save(save);
    for (std::int64_t rank = 0; rank < 4; ++rank) {
      std::vector<HeldPiece> held;
      std::int64_t at = 1577 * rank;
      for (const Box& box : boxes_of_range({64, 100}, at, rank < 3 ? 1577 : 6400 - 3 * 1577)) {
        held.push_back({"matrix", "F32", {64, 100}, box, bytes(matrix, at, box.elements())});
        at += box.elements();
      }
      if (rank == 3) held.push_back({"vector", "F32", {7}, whole_box({7}), bytes(vector, 0, 7)});
      Manifest part{.written_by = "test", .progress = {.step = step}};
      write_pieces(saving_path(save), rank, held, part);
      write_part(saving_path(save), rank, part);
    }
    commit_save(save, 4);
  }

  static std::span<const std::byte> bytes(const std::vector<float>& values, std::int64_t first,
                                          std::int64_t n) {
    return std::as_bytes(
        std::span(values).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(n)));
  }

  static std::vector<float> read(Checkpoint& from, const std::string& tensor, const Box& box) {
    std::vector<float> out(static_cast<std::size_t>(box.elements()));
    from.read(tensor, box, std::as_writable_bytes(std::span(out)));
    return out;
  }

  std::string folder_ = cat(::testing::TempDir(), "checkpoints-", ::getpid());
};

TEST_F(Checkpoints, AnyBoxIsReadWhicheverRanksWroteIt) {
  save(3, 0);
  Checkpoint saved(step_folder(folder_, 3).path);
  EXPECT_EQ(saved.manifest().progress.step, 3);
  EXPECT_EQ(read(saved, "matrix", {{15, 70}, {3, 2}}),
            (std::vector<float>{1570, 1571, 1670, 1671, 1770, 1771}));
  std::vector<float> expected(6400);
  std::iota(expected.begin(), expected.end(), 0.f);
  EXPECT_EQ(read(saved, "matrix", whole_box({64, 100})), expected);
  EXPECT_EQ(read(saved, "vector", {{5}, {2}}), (std::vector<float>{3, 3}));
  EXPECT_THAT(saved.problems(), IsEmpty());
  EXPECT_THAT(complaint_of([&] { saved.tensor("matrx"); }), HasSubstr("'matrix'"));
}

TEST_F(Checkpoints, AFileHoldsOneBoxOfATensorAtMost) {
  save(3, 0);
  const Manifest manifest = Checkpoint(step_folder(folder_, 3).path).manifest();
  std::set<std::pair<std::uint32_t, std::string>> seen;
  for (const Piece& piece : manifest.pieces) EXPECT_TRUE(seen.insert({piece.file, piece.tensor}).second);
  EXPECT_EQ(manifest.files.size(),
            2u + 3 + 3 + 2);  // rows are cut at one end of ranks 0 and 3, at both of 1 and 2
}

TEST_F(Checkpoints, AStepThatIsSavedAgainReplacesTheOldOne) {
  save(3, 0);
  save(3, 500);
  Checkpoint saved(step_folder(folder_, 3).path);
  EXPECT_EQ(read(saved, "matrix", {{0, 0}, {1, 1}}), (std::vector<float>{500}));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

TEST_F(Checkpoints, OldOnesAreRemovedButForThoseThatAreKept) {
  for (const std::int64_t step : {10, 20, 30, 40, 50}) save(step, 0);
  remove_old(folder_, {.last = 2, .every = 20}, 50);
  std::vector<std::int64_t> steps;
  for (const StepFolder& found : step_folders(folder_)) steps.push_back(found.step);
  EXPECT_EQ(steps, (std::vector<std::int64_t>{50, 40, 20}));
}

TEST_F(Checkpoints, NewerOnesThanTheLastSavedDoNotPushItOut) {
  for (const std::int64_t step : {10, 20, 30}) save(step, 0);
  remove_old(folder_, {.last = 1}, 20);
  EXPECT_EQ(step_folders(folder_).size(), 2u);
  EXPECT_EQ(step_folders(folder_).back().step, 20);
}

TEST_F(Checkpoints, WhatASaveThatNeverEndedLeftIsNoCheckpointAndIsRemoved) {
  const Save never_ended{folder_, 7, 5};
  begin_save(never_ended);
  std::filesystem::create_directory(folder_ + "/step-00000006.removing-0123456789abcdef");
  std::filesystem::create_directory(folder_ + "/step-00000005.saving");  // as earlier versions named it
  std::filesystem::create_directory(folder_ + "/notes.saving");
  EXPECT_THAT(step_folders(folder_), IsEmpty());
  save(8, 0);
  EXPECT_TRUE(std::filesystem::exists(saving_path(never_ended))) << "another job may be saving there";
  remove_unfinished(folder_);
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder_))
    names.insert(entry.path().filename());
  EXPECT_EQ(names, (std::set<std::string>{"step-00000008", "notes.saving"}));
}

TEST_F(Checkpoints, TwoJobsThatSaveOneStepDoNotMixTheirFiles) {
  const std::vector<float> ones(8, 1), twos(8, 2);
  const Save first{folder_, 5, 1}, second{folder_, 5, 2};
  begin_save(first);
  begin_save(second);
  for (const auto& [save, values] : {std::pair(first, ones), std::pair(second, twos)}) {
    Manifest part{.progress = {.step = 5}};
    const HeldPiece held{"a", "F32", {8}, whole_box({8}), bytes(values, 0, 8)};
    write_pieces(saving_path(save), 0, std::span(&held, 1), part);
    write_part(saving_path(save), 0, part);
  }
  commit_save(first, 1);
  commit_save(second, 1);
  Checkpoint saved(step_folder(folder_, 5).path);
  EXPECT_THAT(saved.problems(), IsEmpty());
  EXPECT_EQ(read(saved, "a", whole_box({8})), twos);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1) << "the first was replaced";
}

TEST_F(Checkpoints, ASaveWhoseFilesAreGoneOrAnothersIsNotCommitted) {
  const std::vector<float> ones(8, 1), twos(8, 2);
  const auto write = [&](const Save& save, const std::vector<float>& values) {
    begin_save(save);
    Manifest part{.progress = {.step = 5}};
    const HeldPiece held{"a", "F32", {8}, whole_box({8}), bytes(values, 0, 8)};
    write_pieces(saving_path(save), 0, std::span(&held, 1), part);
    write_part(saving_path(save), 0, part);
    return saving_path(save) + "/rank-00000.safetensors";
  };
  const Save gone{folder_, 5, 1}, cut{folder_, 6, 2}, mixed{folder_, 7, 3}, other{folder_, 8, 4};
  std::filesystem::remove(write(gone, ones));
  EXPECT_THAT(complaint_of([&] { commit_save(gone, 1); }),
              HasSubstr("rank-00000.safetensors': No such file"));
  std::filesystem::resize_file(write(cut, ones), 10);
  EXPECT_THAT(complaint_of([&] { commit_save(cut, 1); }), HasSubstr("has 10 bytes"));
  const std::string from = write(other, twos), to = write(mixed, ones);
  for (const char* suffix : {"", ".hashes"}) std::filesystem::rename(from + suffix, to + suffix);
  EXPECT_THAT(complaint_of([&] { commit_save(mixed, 1); }),
              HasSubstr("its hash is not that of the manifest"));
  EXPECT_THAT(step_folders(folder_), IsEmpty());
}

TEST_F(Checkpoints, AMissingOrShortFileAndAChangedByteAreNamed) {
  save(3, 0);
  const std::string path = step_folder(folder_, 3).path, file = path + "/rank-00001.safetensors";
  {
    std::fstream damage(file, std::ios::in | std::ios::out | std::ios::binary);
    damage.seekp(-5, std::ios::end);
    damage.put('x');
  }
  Checkpoint saved(path);
  ASSERT_EQ(saved.problems().size(), 1u);
  EXPECT_THAT(saved.problems().front(), HasSubstr("rank-00001.safetensors' is damaged between byte 0"));
  EXPECT_THAT(complaint_of([&] { read(saved, "matrix", whole_box({64, 100})); }), HasSubstr("rank-00001"));
  std::filesystem::resize_file(file, 100);
  EXPECT_THAT(complaint_of([&] { Checkpoint again(path); }),
              HasSubstr("rank-00001.safetensors' has 100 bytes"));
  std::filesystem::remove(file);
  EXPECT_THAT(complaint_of([&] { Checkpoint again(path); }), HasSubstr("No such file"));
}

TEST_F(Checkpoints, AllDamageIsNamedChunkByChunk) {
  const std::vector<float> values(5 * kChunkBytes / sizeof(float));
  const Save save{folder_, 1, 5};
  begin_save(save);
  Manifest part;
  const Shape shape = {std::ssize(values)};
  const HeldPiece held{"a", "F32", shape, whole_box(shape), std::as_bytes(std::span(values))};
  write_pieces(saving_path(save), 0, std::span(&held, 1), part);
  write_part(saving_path(save), 0, part);
  commit_save(save, 1);
  const std::string path = step_folder(folder_, 1).path;
  for (const std::streamoff chunk : {0, 2, 3}) {
    std::fstream damage(path + "/rank-00000.safetensors", std::ios::in | std::ios::out | std::ios::binary);
    damage.seekp(chunk * static_cast<std::streamoff>(kChunkBytes) + 1000);
    damage.put('x');
  }
  std::uint64_t last = 0, all = 0;
  const auto problems =
      problems_of(path, [&](std::uint64_t done, std::uint64_t in_all) { last = done, all = in_all; });
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_THAT(problems[0], HasSubstr("damaged between byte 0 and byte 1048576"));
  EXPECT_THAT(problems[1], HasSubstr("damaged in all 2 chunks between byte 2097152 and byte 4194304"));
  EXPECT_GT(all, 5 * kChunkBytes);
  EXPECT_EQ(last, all);
}

TEST_F(Checkpoints, WhatIsLeftOfARemovalThatNeverEndedSaysWhatItIs) {
  save(3, 0);
  const std::string path = step_folder(folder_, 3).path;
  std::filesystem::remove(path + "/manifest.json");
  EXPECT_THAT(
      complaint_of([&] { Checkpoint again(path); }),
      HasSubstr(
          "step-00000003' has no manifest.json: it is no checkpoint, or what is left of one that was being "
          "removed when its job ended"));
  ASSERT_EQ(problems_of(path).size(), 1u);
  EXPECT_THAT(problems_of(path).front(), HasSubstr("has no manifest.json"));
}

TEST_F(Checkpoints, AFolderThatDoesNotOpenHasItsProblemsListed) {
  save(3, 0);
  const std::string path = step_folder(folder_, 3).path;
  std::filesystem::remove(path + "/rank-00001.safetensors");
  std::filesystem::resize_file(path + "/rank-00002.safetensors.hashes", 1);
  const auto problems = problems_of(path);
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_THAT(problems[0], HasSubstr("rank-00001.safetensors': No such file"));
  EXPECT_THAT(problems[1], HasSubstr("rank-00002.safetensors.hashes' has 1 bytes instead of 8"));
  std::filesystem::resize_file(path + "/manifest.json", 100);
  ASSERT_EQ(problems_of(path).size(), 1u);
  EXPECT_THAT(problems_of(path).front(), HasSubstr("manifest"));
}

TEST_F(Checkpoints, ARankWithoutPiecesWritesNoFile) {
  const Save save{folder_, 1, 5};
  begin_save(save);
  Manifest part;
  write_pieces(saving_path(save), 0, std::span<const HeldPiece>(), part);
  EXPECT_THAT(part.files, IsEmpty());
}

}  // namespace
}  // namespace tessera::checkpoint
