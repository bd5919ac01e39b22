/** Guesses which known word a misspelled word was meant to be. Pure. */

/** The nearest candidate, if it is near enough for a typo. Case, `-` and `_` do not count. */
export function nearest(word: string, candidates: Iterable<string>): string | undefined {
  const wanted = folded(word)
  let best: string | undefined
  let bestDistance = Math.max(1, Math.floor(wanted.length / 3)) + 1
  for (const candidate of candidates) {
    const distance = slips(wanted, folded(candidate), bestDistance)
    if (distance < bestDistance) {
      best = candidate
      bestDistance = distance
    }
  }
  return best
}

/** ` (did you mean X?)`, or nothing. */
export function didYouMean(word: string, candidates: Iterable<string>): string {
  const found = nearest(word, candidates)
  return found === undefined ? '' : ` (did you mean ${found}?)`
}

// ---- details ----

const folded = (word: string): string => word.toLowerCase().replace(/[-_]/g, '')

/** The smallest number of inserted, omitted, swapped or wrong letters between two words, up to `max`. */
function slips(a: string, b: string, max: number): number {
  if (Math.abs(a.length - b.length) >= max) return max
  let before: number[] = []
  let last = Array.from({ length: b.length + 1 }, (_, column) => column)
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1] ? 0 : 1
      let least = Math.min((row[j - 1] ?? 0) + 1, (last[j] ?? 0) + 1, (last[j - 1] ?? 0) + same)
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        least = Math.min(least, (before[j - 2] ?? 0) + 1)
      row.push(least)
    }
    before = last
    last = row
  }
  return Math.min(max, last[b.length] ?? max)
}
