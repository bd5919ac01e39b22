/** Words for a POSIX shell. */

/** In single quotes a shell gives no character a special meaning, except the quote itself. */
export const quoted = (word: string): string => `'${word.replaceAll("'", `'\\''`)}'`
