//! Header changes and what they do to the mask.
