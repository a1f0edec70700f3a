// Solves systems of a few hundred equations with a symmetric positive matrix.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

#include "tessera/base/error.hpp"

namespace tessera::planner {

// A square matrix, row after row.
struct Matrix {
  explicit Matrix(std::size_t n) : size(n), values(n * n, 0.0) {}
  double& at(std::size_t i, std::size_t j) { return values[i * size + j]; }
  double at(std::size_t i, std::size_t j) const { return values[i * size + j]; }
  std::size_t size;
  std::vector<double> values;
};

class Cholesky {
 public:
  explicit Cholesky(Matrix m) : l_(std::move(m)) {
    const std::size_t n = l_.size;
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j <= i; ++j) {
        double sum = l_.at(i, j);
        for (std::size_t k = 0; k < j; ++k) sum -= l_.at(i, k) * l_.at(j, k);
        if (i == j) TESSERA_CHECK(sum > 0, "a matrix that is not positive");
        l_.at(i, j) = i == j ? std::sqrt(sum) : sum / l_.at(j, j);
      }
  }

  // x of L x = b.
  std::vector<double> lower(std::vector<double> b) const {
    for (std::size_t i = 0; i < l_.size; ++i) {
      for (std::size_t k = 0; k < i; ++k) b[i] -= l_.at(i, k) * b[k];
      b[i] /= l_.at(i, i);
    }
    return b;
  }
  // x of A x = b.
  std::vector<double> solve(std::vector<double> b) const {
    b = lower(std::move(b));
    for (std::size_t i = l_.size; i-- > 0;) {
      for (std::size_t k = i + 1; k < l_.size; ++k) b[i] -= l_.at(k, i) * b[k];
      b[i] /= l_.at(i, i);
    }
    return b;
  }

 private:
  Matrix l_;
};

}  // namespace tessera::planner
