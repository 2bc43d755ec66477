//! How a recording's table is declared: [`crate::record`] has each column once, as the field of a row.

use serde_json::{Value, json};

/// A row of a table.
pub trait Table: Sized {
    /// The table's name, the middle of its file's name.
    const TABLE: &'static str;

    /// Its columns, in the order of the file.
    fn columns() -> Vec<Column<Self>>;
}

/// A column of a table whose rows are `R`.
pub struct Column<R> {
    /// Its name.
    pub name: &'static str,
    /// Whether it may be null.
    pub nullable: bool,
    /// Whether recordings of earlier agents may end before it.
    pub added: bool,
    /// How its values are taken from rows.
    pub values: Values<R>,
}

/// Takes a column's value from a row.
pub type Take<R, T> = Box<dyn Fn(&R) -> Option<T> + Send>;

/// The same of bytes, which are never null.
pub type TakeBytes<R> = Box<dyn Fn(&R) -> &[u8] + Send>;

/// How a column's values are taken from rows, by its type in the file.
#[allow(missing_docs)] // the types' own names
pub enum Values<R> {
    Bool(Take<R, bool>),
    U8(Take<R, u8>),
    U16(Take<R, u16>),
    U32(Take<R, u32>),
    U64(Take<R, u64>),
    I32(Take<R, i32>),
    I64(Take<R, i64>),
    Text(Take<R, String>),
    Bytes(TakeBytes<R>),
}

impl<R> Values<R> {
    /// The type, as Arrow's implementations write it.
    fn name(&self) -> &'static str {
        match self {
            Self::Bool(_) => "bool",
            Self::U8(_) => "uint8",
            Self::U16(_) => "uint16",
            Self::U32(_) => "uint32",
            Self::U64(_) => "uint64",
            Self::I32(_) => "int32",
            Self::I64(_) => "int64",
            Self::Text(_) => "string",
            Self::Bytes(_) => "binary",
        }
    }
}

/// What a field of a row may be.
pub trait Cell: Sized + 'static {
    /// Whether it may be null.
    const NULLABLE: bool = false;

    /// How a column has the field that `of` returns.
    fn values<R>(of: impl Fn(&R) -> &Self + Send + 'static) -> Values<R>;
}

/// `TYPE => COLUMN's type, how the one becomes the other`, for it and for an `Option` of it.
macro_rules! cells {
    ($($cell:ty => $values:ident, $put:expr;)+) => {$(
        impl $crate::table::Cell for $cell {
            fn values<R>(of: impl Fn(&R) -> &Self + Send + 'static) -> $crate::table::Values<R> {
                $crate::table::Values::$values(Box::new(move |row| Some(($put)(*of(row)))))
            }
        }

        impl $crate::table::Cell for Option<$cell> {
            const NULLABLE: bool = true;

            fn values<R>(of: impl Fn(&R) -> &Self + Send + 'static) -> $crate::table::Values<R> {
                $crate::table::Values::$values(Box::new(move |row| of(row).map($put)))
            }
        }
    )+};
}

pub(crate) use cells;

cells! {
    bool => Bool, |truth| truth;
    u8 => U8, |number| number;
    u16 => U16, |number| number;
    u32 => U32, |number| number;
    u64 => U64, |number| number;
    i32 => I32, |number| number;
    i64 => I64, |number| number;
    &'static str => Text, |text: &str| text.to_owned();
    // What the kernel has as sixteen bytes, ended by a zero where it is shorter.
    [u8; 16] => Text, |name: [u8; 16]| {
        String::from_utf8_lossy(name.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned()
    };
}

/// Declares the tables: each a row and its columns, the row's fields by their names and in their order; behind `added` those
/// that recordings of earlier agents do not have.
macro_rules! tables {
    ($(
        $(#[$about:meta])+
        $row:ident in $table:literal {
            $($(#[$said:meta])* $field:ident: $cell:ty,)+
        }
        $(added {
            $($(#[$said_later:meta])* $later:ident: $later_cell:ty,)+
        })?
    )+) => {
        $(
            $(#[$about])+
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub struct $row {
                $($(#[$said])* pub $field: $cell,)+
                $($($(#[$said_later])* pub $later: $later_cell,)+)?
            }

            impl $crate::table::Table for $row {
                const TABLE: &'static str = $table;

                fn columns() -> Vec<$crate::table::Column<Self>> {
                    use $crate::table::{Cell, Column};
                    vec![
                        $(Column {
                            name: stringify!($field),
                            nullable: <$cell>::NULLABLE,
                            added: false,
                            values: <$cell>::values(|row: &Self| &row.$field),
                        },)+
                        $($(Column {
                            name: stringify!($later),
                            nullable: <$later_cell>::NULLABLE,
                            added: true,
                            values: <$later_cell>::values(|row: &Self| &row.$later),
                        },)+)?
                    ]
                }
            }
        )+

        /// Each table's columns: their names, Arrow types, whether they may be null, and whether recordings of earlier agents may
        /// end before them.
        pub fn tables() -> serde_json::Map<String, serde_json::Value> {
            [$(($table.to_owned(), $crate::table::described::<$row>()),)+].into_iter().collect()
        }
    };
}
pub(crate) use tables;

/// A table's columns, as `latlab-agent schema` prints them.
pub(crate) fn described<R: Table>() -> Value {
    let one = |column: Column<R>| {
        let Column { name, nullable, added, values } = column;
        json!({"name": name, "type": values.name(), "nullable": nullable, "added": added})
    };
    R::columns().into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Late, Sent, tables};

    #[test]
    fn columns_that_were_added_are_the_last() {
        for (table, columns) in tables() {
            let added: Vec<_> = columns.as_array().unwrap().iter().map(|one| one["added"].as_bool().unwrap()).collect();
            assert!(added.is_sorted(), "{table}");
            assert!(!added[0], "{table}");
        }
    }

    #[test]
    fn a_column_has_its_field() {
        let row = Sent {
            stream: 3,
            sequence: 7,
            launch_tai_ns: 1,
            wake_due_tai_ns: 2,
            wake_tai_ns: 4,
            submit_tai_ns: 5,
            error: -6,
            late: Late::Moved,
        };
        let found: Vec<_> = Sent::columns()
            .iter()
            .map(|column| match &column.values {
                Values::U8(of) => i64::from(of(&row).unwrap()),
                Values::U16(of) => i64::from(of(&row).unwrap()),
                Values::U64(of) => of(&row).unwrap() as i64,
                Values::I32(of) => i64::from(of(&row).unwrap()),
                Values::I64(of) => of(&row).unwrap(),
                _ => panic!("{}", column.name),
            })
            .collect();
        assert_eq!(found, [3, 7, 1, 2, 4, 5, -6, 2]);
    }

    #[test]
    fn a_name_of_the_kernels_ends_at_its_zero() {
        let Values::Text(of) = <[u8; 16]>::values(|row: &[u8; 16]| row) else { panic!() };
        assert_eq!(of(b"eth0\0junk\0\0\0\0\0\0\0"), Some("eth0".into()));
        assert_eq!(of(b"sixteen-bytes-16"), Some("sixteen-bytes-16".into()));
    }
}
