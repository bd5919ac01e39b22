/** A path or a URL as one word of a shell. */
export const shellQuoted = (path: string): string =>
  /^[\w/.:@+-]+$/.test(path) ? path : `'${path.replaceAll("'", `'\\''`)}'`
