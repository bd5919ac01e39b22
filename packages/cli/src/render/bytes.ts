/** A size for people: `512 B`, `20 KiB`, `1.4 GiB`. */
export function bytesText(bytes: number): string {
  let value = bytes
  let unit = 0
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024
    unit += 1
  }
  return `${unit < 2 || value >= 100 ? Math.round(value) : Number(value.toFixed(1))} ${UNITS[unit]}`
}

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'] as const
