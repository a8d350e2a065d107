//! A simulator of AMD CDNA code objects.

#![deny(missing_docs)]
