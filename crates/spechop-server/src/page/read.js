// Reading JSON that others wrote. A recording may come from anybody, so no field is trusted to have its type, and
// nothing here throws.

/// A finite number between 0 and 10^12. Protobuf's JSON writes 64-bit numbers as strings.
export function num(value) {
  const number = typeof value === 'string' ? Number(value) : value;
  return typeof number === 'number' && Number.isFinite(number) ? Math.min(Math.max(number, 0), 1e12) : 0;
}

/// A number, or null if the field is left out.
export const maybe = (value) => (value == null ? null : num(value));

export const str = (value) => (typeof value === 'string' ? value : '');

export const obj = (value) => (value !== null && typeof value === 'object' && !Array.isArray(value) ? value : {});

export const list = (value) => (Array.isArray(value) ? value : []);

/// `STAGE_SEGMENT` as `segment`.
export const word = (value, prefix) => str(value).replace(prefix, '').toLowerCase();
