// Which experts the tokens of a run chose, in a file that any layout can write and any other take its choices
// from. It is a safetensors file with one tensor `experts`, U16 [samples, layers with experts, positions,
// experts of a token]: an expert's number and 1, or 0 where nothing was recorded.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/files/descriptor.hpp"
#include "tessera/base/files/random_access_file.hpp"
#include "tessera/spec/spec.hpp"

namespace tessera::train {

struct ChoiceShape {
  std::int64_t samples = 0, layers = 0, positions = 0, choices = 0;
  bool operator==(const ChoiceShape&) const = default;
  std::int64_t values() const { return samples * layers * positions * choices; }
};
// Of all steps of the run.
ChoiceShape choice_shape(const spec::Model& model, const spec::Training& training);

// Makes the file with nothing recorded in it. One of such a shape is left as it is, for a run that goes on;
// any other is a UserError.
void make_choice_file(const std::string& path, const ChoiceShape& shape);

class ChoiceReader {
 public:
  // Throws UserError when it is no such file, or one of another model.
  ChoiceReader(const std::string& path, const spec::Model& model);
  // [positions, choices] of one sample in one of the layers with experts, counted from 0. Throws UserError
  // when it was not recorded or names an expert that the model does not have.
  std::vector<std::int64_t> read(std::uint64_t sample, std::int64_t layer) const;

 private:
  RandomAccessFile file_;
  ChoiceShape shape_;
  std::uint64_t data_begin_ = 0;
  std::int64_t experts_;
};

class ChoiceWriter {
 public:
  // Of a file that was made.
  explicit ChoiceWriter(const std::string& path);
  // Neighbouring positions of a sample, from `position` on: choices of each. Throws UserError when the disk
  // refuses.
  void write(std::uint64_t sample, std::int64_t layer, std::int64_t position,
             std::span<const std::int64_t> experts);
  // The same of rows that each have their place first, counted through samples and positions from the first
  // position of `first_sample` on.
  void write_rows(std::uint64_t first_sample, std::int64_t layer, std::span<const std::int64_t> rows);

 private:
  std::string path_;
  Descriptor file_;
  ChoiceShape shape_;
  std::uint64_t data_begin_ = 0;
};

}  // namespace tessera::train
