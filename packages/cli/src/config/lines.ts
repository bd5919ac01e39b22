/** Finds the line of a key in a TOML text, for error messages. The parser does not report it. */

/** 1-based. If the key itself is missing, the line of its closest parent. */
export function lineOfKey(toml: string, path: readonly string[]): number {
  let section: readonly string[] = []
  let best = 1
  let bestDepth = 0
  const arrays = new Map<string, number>()
  for (const [index, line] of toml.split('\n').entries()) {
    const header = /^\s*(\[\[?)\s*([^\]]+?)\s*\]\]?/.exec(line)
    if (header !== null) {
      section = keysOf(header[2] ?? '')
      if (header[1] === '[[') {
        const name = section.join('.')
        const nth = arrays.get(name) ?? 0
        arrays.set(name, nth + 1)
        section = [...section, String(nth)]
      }
    } else if (!/^\s*[^#\s[][^=]*=/.test(line)) continue
    const here = header === null ? [...section, ...keysOf(line.slice(0, line.indexOf('=')))] : section
    const depth = commonDepth(here, path)
    if (depth > bestDepth) {
      best = index + 1
      bestDepth = depth
    }
  }
  return best
}

// ---- details ----

const keysOf = (text: string): readonly string[] =>
  [...text.matchAll(/"([^"]*)"|'([^']*)'|([\w-]+)/g)].map((m) => m[1] ?? m[2] ?? m[3] ?? '')

function commonDepth(here: readonly string[], wanted: readonly string[]): number {
  let depth = 0
  while (depth < here.length && depth < wanted.length && here[depth] === wanted[depth]) depth++
  return depth === here.length || depth === wanted.length ? depth : depth > 0 ? depth - 0.5 : 0
}
