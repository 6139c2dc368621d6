/** Letters of scripts without spaces between words, for a character class of a regular expression with the flag `u`. */
export const UNSPACED =
  "\\p{sc=Han}\\p{sc=Hira}\\p{sc=Kana}\\p{sc=Hang}\\p{sc=Bopo}\\p{sc=Yi}\\p{sc=Thai}\\p{sc=Lao}\\p{sc=Khmr}\\p{sc=Mymr}\\p{sc=Tibt}\\u30fc";
