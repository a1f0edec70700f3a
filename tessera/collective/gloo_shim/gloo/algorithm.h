// The LibTorch package exports Gloo's symbols but ships none of its headers. This folder declares the little that
// c10d's ProcessGroupGloo.hpp names. Nothing of Tessera calls through these declarations.
#pragma once
