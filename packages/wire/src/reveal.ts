/** Makes invisible characters visible in commands, paths and titles: they can hide what a line really does. */

// Controls, line separators, and everything that is never drawn or changes the direction of text. What joins and styles emoji stays.
const HIDDEN =
  /(?![\t\n])\p{Cc}|[\u2028\u2029\ufff9-\ufffb]|(?![\ufe0e\ufe0f])(?!(?<=\p{Extended_Pictographic}\ufe0f?)\u200d)\p{Default_Ignorable_Code_Point}/gu

export const reveal = (text: string): string => text.replace(HIDDEN, marked)

/** A character by its code. */
export const marked = (hidden: string): string =>
  `⟦U+${(hidden.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}⟧`
