/** Rows of cells as aligned lines of text, and what makes a cell short. Pure. */

/** The last column is not padded. A line break in a cell would look like another row, so it becomes a space. */
export function tableOf(rows: readonly (readonly string[])[]): readonly string[] {
  const clean = rows.map((row) => row.map((cell) => cell.replaceAll(/\s+/g, ' ')))
  const widths: number[] = []
  for (const row of clean)
    for (const [column, cell] of row.entries()) widths[column] = Math.max(widths[column] ?? 0, cell.length)
  return clean.map((row) =>
    row
      .map((cell, column) => (column === row.length - 1 ? cell : cell.padEnd(widths[column] ?? 0)))
      .join('  ')
      .trimEnd(),
  )
}

/** At most so many characters, with `…` for the rest. */
export const shortened = (text: string, charsMax: number): string =>
  text.length <= charsMax ? text : `${text.slice(0, Math.max(charsMax - 1, 0)).trimEnd()}…`

/** Shortens ids to the shortest prefix that tells them apart: the first two groups, which are the time, or more. */
export function shortener(ids: readonly string[]): (id: string) => string {
  const length = [13, 18, 23].find((most) => new Set(ids.map((id) => id.slice(0, most))).size === ids.length)
  return (id) => id.slice(0, length)
}
